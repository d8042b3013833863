// The plan of one receiver: which bytes it reads from which source.
//
// Pure and deterministic: the same inputs give the same plan in every process. Integers only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "plan/read_list.h"

namespace wb {

// Where buffer i of a layout lies: byte `offset` of region `region`. Parallel to the buffers.
struct Placement {
  uint32_t region = 0;
  uint64_t offset = 0;
};

// A worker as the planner sees it. Pointers are borrowed for the call.
struct PlanWorker {
  std::string name;  // for error sentences: "trainer-3"
  const WorkerLayout* layout = nullptr;
  std::span<const Placement> placement;    // parallel to layout->buffers
  std::span<const uint64_t> region_bytes;  // size of each region
  Digest mapping = {};  // layout_digest(), if known: equal layouts are then looked at once
};

struct Plan {
  Digest inputs;                // of all that it depends on; see FleetReport
  std::vector<ReadList> lists;  // one per source that is read from, ascending source index
  uint64_t bytes = 0;           // equal to the receiver's piece bytes
};

class FleetCache;  // plan/fleet_cache.h

// What receivers[own] reads when all receivers use the sources as evenly as possible, each for
// itself. Every worker counts as a NIC of one speed on a host of its own; hosts are numbered in the
// order of the lists, so all receivers of a job list both sides alike. Names are unique in a list,
// layouts have passed check_layout. The result is NOT yet proved: see proof.h. Ends early where a
// CancelScope says so.
//
// kNotCovered names the first tensor that no source holds.
Result<Plan> make_plan(const TensorTable& table, std::span<const PlanWorker> sources,
                       std::span<const PlanWorker> receivers, uint32_t own,
                       FleetCache* cache = nullptr);

}  // namespace wb
