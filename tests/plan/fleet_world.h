// A fleet with all that it borrows, and an oracle that executes its parts byte by byte. The oracle
// is slow and independent of the planner, the proof and the boxes' algebra.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/fleet.h"
#include "world.h"

namespace wb::test {

// Owns the world that the fleet borrows; not to be moved after make().
struct FleetJob {
  FleetWorld world;
  Side sides[2];
  std::unique_ptr<Fleet> fleet;

  explicit FleetJob(FleetWorld w);
  // Parts of all receivers, or the first error.
  Result<std::vector<FleetPart>> parts(const FleetPlan& plan) const;
};

// "" when the parts, executed stage after stage, write every needed byte of every receiver once and
// with the right content, read only what is there at that stage, and every fallback writes the same
// bytes as the list that it stands for; else the first thing that is wrong.
std::string fault_of(const FleetJob& job, const std::vector<FleetPart>& parts);

// Counted byte by byte.
struct FleetCount {
  uint64_t needed = 0;
  uint64_t distinct = 0;
  uint64_t stored = 0;
  uint64_t absent = 0;  // distinct needed bytes that no source holds
  std::vector<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> sets;  // of classes, sorted
  std::vector<uint64_t> bytes;                                                // parallel
};
FleetCount count(const FleetJob& job);

}  // namespace wb::test
