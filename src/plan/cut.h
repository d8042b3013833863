// Divides classes as a balance says: amounts become ranges along whole rows.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/balance.h"
#include "plan/class_map.h"
#include "plan/fleet.h"

namespace wb {

struct Division {
  std::vector<Flow> flows;
  std::vector<EntryFlow> entries;
};

// `unit` as in FleetOptions::cut_bytes. Large classes first; each boundary is rounded to the side
// that brings the workers next to it closer to what they were given. With `exact`, boundaries stay
// at the very byte where the balance has them, also inside elements: for tests of the balance.
Division divide(const ClassMap& map, const Balance& balance, uint64_t unit, bool exact = false);

// The loads that hops make on a cluster: fills in source_bytes, receiver_in, receiver_out and the
// bytes of `balance->loads`, whose bounds stay.
void account(const std::vector<FleetEdge>& edges, const Cluster& cluster, Balance* balance);

}  // namespace wb
