// The slots of a snapshot publisher: n copies of all buffers, each in one shared allocation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/status.h"
#include "layout/worker_layout.h"
#include "memory/allocation.h"
#include "plan/plan.h"
#include "session/bound_memory.h"
#include "session/version.h"

namespace wb {

class SnapshotSlots {
 public:
  // Allocates all slots: kNoMemory is known here.
  static Result<SnapshotSlots> create(const WorkerLayout& layout, uint32_t slots, bool huge_pages);

  const std::vector<std::shared_ptr<Allocation>>& memory() const { return memory_; }
  // Where the buffers lie in a slot; its only region is 0.
  const std::vector<Placement>& placement() const { return placement_; }

  // The slot to overwrite next: an empty one, else the one with the oldest version. Never the
  // newest, since there are at least two.
  uint32_t next() const;
  void fill(uint32_t slot, const WorkerLayout& layout, const BoundMemory& live) const;
  void set_version(uint32_t slot, std::optional<Version> version) { versions_[slot] = version; }

 private:
  std::vector<std::shared_ptr<Allocation>> memory_;
  std::vector<Placement> placement_;
  std::vector<std::optional<Version>> versions_;
};

}  // namespace wb
