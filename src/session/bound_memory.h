// Buffers of a layout in memory: from the caller's BoundBuffers to regions and placements, and
// their registration with transports.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "layout/worker_layout.h"
#include "memory/allocation.h"
#include "observe/log.h"
#include "plan/plan.h"
#include "session/job.h"
#include "transport/transport.h"

namespace wb {

// The distinct allocations behind a layout's buffers (the regions), and where each buffer lies in
// them.
struct BoundMemory {
  std::vector<std::shared_ptr<Allocation>> regions;
  std::vector<uint64_t> region_bytes;  // parallel to regions
  std::vector<Placement> placement;    // parallel to the layout's buffers
  std::byte* buffer(size_t index) const {
    return regions[placement[index].region]->data() + placement[index].offset;
  }
};

// kInvalidArgument: another number of buffers than the layout has, a buffer outside its allocation,
// two buffers that overlap in memory.
Result<BoundMemory> group_buffers(const WorkerLayout& layout,
                                  const std::vector<BoundBuffer>& buffers);

// The bytes that one allocation for all buffers takes, and where each buffer lies in it.
struct PackedMemory {
  uint64_t bytes = 0;
  std::vector<uint64_t> offsets;
};
Result<PackedMemory> pack_memory(const WorkerLayout& layout);

// Regions registered with one transport; deregistered by release(), at the latest on destruction.
class RegisteredRegions {
 public:
  static Result<RegisteredRegions> make(Domain* domain,
                                        std::span<const std::shared_ptr<Allocation>> memory,
                                        Access access, const Log& log);
  RegisteredRegions(RegisteredRegions&& other) noexcept;
  RegisteredRegions& operator=(RegisteredRegions&&) = delete;
  ~RegisteredRegions();

  Domain& domain() const { return *domain_; }
  std::span<const RegionId> ids() const { return ids_; }
  // The first error of many; every region is tried.
  Status release();

 private:
  RegisteredRegions(Domain* domain, Log log) : domain_(domain), log_(std::move(log)) {}
  Domain* domain_;
  Log log_;
  std::vector<RegionId> ids_;
};

}  // namespace wb
