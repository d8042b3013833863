// Which memory of this process the library knows: a pointer of the caller is recognised by its
// address and bound to the allocation it lies in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "memory/allocation.h"
#include "session/job.h"
#include "weightbridge/weightbridge.h"

namespace wb::capi {

struct MemoryWish {
  MemoryKind kind = MemoryKind::kShared;
  AllocationOptions options;
};
// Null: the defaults.
Result<MemoryWish> read_memory_options(const wb_memory_options* given);

// Recognises pointers into `memory` for as long as somebody keeps it.
void remember(const std::shared_ptr<Allocation>& memory);

// Nothing when the range touches no known allocation; kInvalidArgument when it lies partly in one.
Result<std::optional<BoundBuffer>> recognise(const void* data, uint64_t bytes);

// Allocations over memory that only the caller knows. Ranges that overlap or lie less than a page
// apart become one: every page of the union then holds bytes of some range, so nothing is
// registered that is not mapped. Zero-length ranges give a null memory.
struct CallerRange {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};
Result<std::vector<BoundBuffer>> group_ranges(std::span<const CallerRange> ranges);

}  // namespace wb::capi
