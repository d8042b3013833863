// Structs of the C ABI that may grow: their first field is struct_size, as the caller compiled it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include "base/status.h"
#include "weightbridge/weightbridge.h"

namespace wb::capi {

// Larger than any struct will become; a size beyond it is an uninitialised field, not a newer
// program.
inline constexpr size_t kMaxStructSize = 4096;

// All fields are at most 8 bytes and 8-byte groups are never split: a struct of a multiple of 8
// bytes ends between two fields.
inline Status check_struct_size(size_t size, const char* what) {
  if (size >= sizeof(size_t) && size <= kMaxStructSize && size % 8 == 0) return Status();
  return Status(Code::kInvalidArgument, std::string(what) + ": struct_size of " +
                                            std::to_string(size) + " is not the size of a struct");
}

// What the caller gave, with zero where its struct is shorter. Null: all zero.
template <typename T>
Result<T> read_sized(const T* given, const char* what) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
  static_assert(offsetof(T, struct_size) == 0);
  T known{};
  if (given == nullptr) return known;
  const size_t size = given->struct_size;
  WB_RETURN_IF_ERROR(check_struct_size(size, what));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      return Status(Code::kUnsupported, std::string(what) + " of a newer program sets byte " +
                                            std::to_string(i) + ", which this library (" +
                                            wb_version() + ") does not know");
    }
  }
  std::memcpy(&known, given, std::min(size, sizeof(T)));
  return known;
}

// Fills the caller's struct as far as it goes; what this library does not know becomes zero.
template <typename T>
Status write_sized(T filled, T* out, const char* what) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0);
  static_assert(offsetof(T, struct_size) == 0);
  if (out == nullptr) return Status(Code::kInvalidArgument, std::string(what) + " is NULL");
  const size_t size = out->struct_size;
  WB_RETURN_IF_ERROR(check_struct_size(size, what));
  filled.struct_size = size;
  const size_t common = std::min(size, sizeof(T));
  std::memcpy(out, &filled, common);
  std::memset(reinterpret_cast<unsigned char*>(out) + common, 0, size - common);
  return Status();
}

}  // namespace wb::capi
