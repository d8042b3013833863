// What a plan does, found by doing it: one byte at a time, with tables of every byte. Slow, and
// independent of the planner, the proof and the boxes' algebra.
#pragma once

#include <cstdint>
#include <string>

#include "plan/plan.h"
#include "world.h"

namespace wb::test {

// "" when the plan moves exactly the needed bytes, each from where its element lies, and its totals
// are right; else the first thing that is wrong.
std::string fault_of(const World& world, const Plan& plan);

// Checkpoint bytes that the receiver needs and no source holds, and the tensors they belong to.
struct Uncovered {
  uint64_t bytes = 0;
  uint32_t tensors = 0;
  std::string first;  // name of the first tensor
};
Uncovered uncovered(const World& world);

}  // namespace wb::test
