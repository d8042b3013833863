// Element types of safetensors, and the unit in which each is addressed.
//
// A type narrower than a byte cannot be addressed element by element. Its unit is the shortest run
// of elements that fills whole bytes (F4: 2 elements in 1 byte; F6: 4 elements in 3 bytes); a byte
// type's unit is one element. Boxes count units along the last dimension, so all that follows is in
// bytes.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace wb {

// Values are part of the C ABI (wb_dtype) and of the manifest: append only.
enum class DType : uint8_t {
  kBool = 1,
  kU8 = 2,
  kI8 = 3,
  kF8E5M2 = 4,
  kF8E4M3 = 5,
  kF8E8M0 = 6,
  kI16 = 7,
  kU16 = 8,
  kF16 = 9,
  kBF16 = 10,
  kI32 = 11,
  kU32 = 12,
  kF32 = 13,
  kI64 = 14,
  kU64 = 15,
  kF64 = 16,
  kC64 = 17,
  kF4 = 18,
  kF6E2M3 = 19,
  kF6E3M2 = 20,
  kF8E4M3FNUZ = 21,
  kF8E5M2FNUZ = 22,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // as safetensors spells it: "BF16", "F8_E4M3"
  uint32_t bits;          // of one element
  uint32_t unit_elements;
  uint32_t unit_bytes;
};

// Null for a value that is not a DType (it may come from a manifest or through the C ABI).
const DTypeInfo* find_dtype(DType dtype);
const DTypeInfo* find_dtype(std::string_view safetensors_name);
// For a DType that is known to be valid.
const DTypeInfo& dtype_info(DType dtype);

}  // namespace wb
