// What a plan costs, per edge: for people (the command line, the start-up report).
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace wb {

// One edge: what the receiver reads from one source.
struct EdgeSummary {
  uint32_t source = 0;  // index into the sources that the plan was made from
  uint64_t bytes = 0;
  uint64_t runs = 0;
  uint64_t reads = 0;     // rows of all runs: contiguous stretches of bytes
  uint64_t smallest = 0;  // bytes of the smallest read
  uint64_t largest = 0;
  bool operator==(const EdgeSummary&) const = default;
};

// One edge per read list, in the plan's order. Takes time in the number of runs, not of bytes.
std::vector<EdgeSummary> summarize(const Plan& plan);

}  // namespace wb
