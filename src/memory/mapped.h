// What lies behind an address of this process.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace wb {

// Ok when every byte of [base, base + bytes) is mapped and readable (and writable, if asked).
// kInvalidArgument with the first address that is not; for null, zero bytes and wrap-around.
Status check_mapped(const void* base, uint64_t bytes, bool writable);

// kUnsupported when a CUDA driver is loaded in this process and says that the range starts or ends
// in device or managed memory. Loads nothing.
Status check_not_device(const void* base, uint64_t bytes);

}  // namespace wb
