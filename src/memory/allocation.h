// Memory that can be registered, by kind. Registers nothing itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace wb {

enum class MemoryKind : uint8_t {
  kHost = 1,    // anonymous private pages
  kShared = 2,  // a memfd: same-host readers can map it
  kCaller = 3,  // memory of the caller, host only; must outlive every use
};

struct AllocationOptions {
  bool huge_pages = false;  // kUnsupported / kNoMemory when the machine has none; never silent
  std::string name = "weightbridge";  // shown in /proc/PID/maps
};

// One contiguous range of host memory. Unmapped and closed by the destructor, except kCaller's.
class Allocation {
 public:
  // Both refuse with kNoMemory, before touching a page, what cannot fit (available memory, the
  // cgroup's and the process's limits). Pages are zero and populated.
  static Result<std::shared_ptr<Allocation>> host(uint64_t bytes, const AllocationOptions& options);
  // Sealed against growing, shrinking and new writable mappings (F_SEAL_FUTURE_WRITE) once mapped.
  static Result<std::shared_ptr<Allocation>> shared(uint64_t bytes,
                                                    const AllocationOptions& options);
  // kInvalidArgument for null, zero bytes, wrap-around or pages that are not mapped; kUnsupported
  // for device memory.
  static Result<std::shared_ptr<Allocation>> caller(void* base, uint64_t bytes);

  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  MemoryKind kind() const { return kind_; }
  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  // The memfd of a kShared allocation, else -1. Owned by the allocation.
  int fd() const { return fd_; }
  // Unique in this process's life: addresses are recycled, ids are not.
  uint64_t id() const { return id_; }

 private:
  Allocation(MemoryKind kind, std::byte* data, uint64_t bytes, uint64_t mapped, int fd);
  MemoryKind kind_;
  std::byte* data_;
  uint64_t bytes_;
  uint64_t mapped_;  // whole pages that the destructor unmaps; 0 for kCaller
  int fd_;
  uint64_t id_;
};

}  // namespace wb
