// The memory that a receiver's pulls write, and how a staging set becomes the live buffers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "layout/worker_layout.h"
#include "plan/plan.h"
#include "session/bound_memory.h"

namespace wb {

// `count` rows of `length` bytes inside buffer `buffer`.
struct InstallRun {
  uint32_t buffer = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t count = 1;
  int64_t pitch = 0;
};

// The bytes that `plan` writes, by buffer of the receiver: what install() copies. Everything else
// in the live buffers is kept. `target` is where the plan's local side lies.
Result<std::vector<InstallRun>> install_runs(const WorkerLayout& layout, const BoundMemory& target,
                                             const Plan& plan);

void copy_runs(std::span<const InstallRun> runs, const BoundMemory& from, const BoundMemory& to);

// Sets the padding that the layout names to zero.
void zero_fill(const WorkerLayout& layout, const BoundMemory& memory);

// Names of what the engine must recompute after new weights.
std::vector<std::string> finalisers(const WorkerLayout& layout);

}  // namespace wb
