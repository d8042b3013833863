// The one place where the library reads memory that another process or thread may be writing.
// The bytes are worthless until the caller has checked the source's header epoch
// (session/header.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/sanitizer.h"

namespace wb {

// memcpy; under TSan relaxed word-atomic loads, since TSan reports the (intended) race of memcpy.
inline void racy_copy(void* dst, const void* src, size_t bytes) {
#if defined(WB_TSAN)
  auto* to = static_cast<unsigned char*>(dst);
  const auto* from = static_cast<const unsigned char*>(src);
  while (bytes != 0 && (reinterpret_cast<uintptr_t>(from) % sizeof(uint64_t)) != 0) {
    *to++ = __atomic_load_n(from++, __ATOMIC_RELAXED);
    --bytes;
  }
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t)) {
    const uint64_t word =
        __atomic_load_n(reinterpret_cast<const uint64_t*>(from), __ATOMIC_RELAXED);
    std::memcpy(to, &word, sizeof word);
    to += sizeof word;
    from += sizeof word;
  }
  while (bytes-- != 0) *to++ = __atomic_load_n(from++, __ATOMIC_RELAXED);
#else
  std::memcpy(dst, src, bytes);
#endif
}

}  // namespace wb
