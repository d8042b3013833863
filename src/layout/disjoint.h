// Finds two byte sets that share a byte, among very many.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "layout/strided.h"

namespace wb {

struct SharedByte {
  uint32_t first = 0;  // indices into the given sets, first < second
  uint32_t second = 0;
  int64_t byte = 0;
};

// Exact. Sets that tile a buffer cost a sort, also when they interleave (columns of a row pitch, at
// any nesting); only sets that no common period tells apart are compared pair by pair. Every
// comparison takes from `budget`; the answer is worthless when it reaches zero.
std::optional<SharedByte> find_shared_byte(std::span<const StridedBytes> sets, int64_t* budget);

}  // namespace wb
