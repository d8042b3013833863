#include "layout/dtype.h"

#include <array>
#include <cstddef>

namespace wb {
namespace {

// Ordered by value, so that a type is found by its index.
constexpr std::array<DTypeInfo, 22> kTypes = {{
    {DType::kBool, "BOOL", 8, 1, 1},
    {DType::kU8, "U8", 8, 1, 1},
    {DType::kI8, "I8", 8, 1, 1},
    {DType::kF8E5M2, "F8_E5M2", 8, 1, 1},
    {DType::kF8E4M3, "F8_E4M3", 8, 1, 1},
    {DType::kF8E8M0, "F8_E8M0", 8, 1, 1},
    {DType::kI16, "I16", 16, 1, 2},
    {DType::kU16, "U16", 16, 1, 2},
    {DType::kF16, "F16", 16, 1, 2},
    {DType::kBF16, "BF16", 16, 1, 2},
    {DType::kI32, "I32", 32, 1, 4},
    {DType::kU32, "U32", 32, 1, 4},
    {DType::kF32, "F32", 32, 1, 4},
    {DType::kI64, "I64", 64, 1, 8},
    {DType::kU64, "U64", 64, 1, 8},
    {DType::kF64, "F64", 64, 1, 8},
    {DType::kC64, "C64", 64, 1, 8},
    {DType::kF4, "F4", 4, 2, 1},
    {DType::kF6E2M3, "F6_E2M3", 6, 4, 3},
    {DType::kF6E3M2, "F6_E3M2", 6, 4, 3},
    {DType::kF8E4M3FNUZ, "F8_E4M3FNUZ", 8, 1, 1},
    {DType::kF8E5M2FNUZ, "F8_E5M2FNUZ", 8, 1, 1},
}};

constexpr bool consistent() {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    const DTypeInfo& type = kTypes[i];
    if (static_cast<size_t>(type.dtype) != i + 1) return false;
    if (type.bits * type.unit_elements != type.unit_bytes * 8) return false;
  }
  return true;
}
static_assert(consistent(), "a type's place is its value - 1, and its unit fills whole bytes");

}  // namespace

const DTypeInfo* find_dtype(DType dtype) {
  const size_t index = static_cast<size_t>(dtype) - 1;  // 0 wraps to a huge index
  return index < kTypes.size() ? &kTypes[index] : nullptr;
}

const DTypeInfo* find_dtype(std::string_view safetensors_name) {
  for (const DTypeInfo& type : kTypes) {
    if (type.name == safetensors_name) return &type;
  }
  return nullptr;
}

const DTypeInfo& dtype_info(DType dtype) { return kTypes.at(static_cast<size_t>(dtype) - 1); }

}  // namespace wb
