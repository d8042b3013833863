// Parts of a fleet's plan as bytes: FlatBuffers, versioned, with a digest over all of it. The same
// parts give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/fleet.h"

namespace wb {

struct PlanFile {
  Digest inputs;
  std::vector<std::string> sources;  // names in canonical order: what the indices of parts mean
  std::vector<std::string> receivers;
  std::vector<FleetPart> parts;
};

// All parts have the digest `inputs` of one plan (else kMismatch).
Result<std::vector<std::byte>> write_plan_file(const Fleet& fleet,
                                               std::span<const FleetPart> parts);

// kBadData for bytes that are not a whole plan of this version, or were changed since: every index
// is in range, every size adds up without overflow. The parts are not proved: the reader does that
// against its own layouts.
Result<PlanFile> read_plan_file(std::span<const std::byte> bytes);

}  // namespace wb
