// Digits as element bits. A plane carries one digit of an index in every element of every probe
// tensor; a digit is a bit pattern that copies, and casts between types that hold it exactly, leave
// alone: finite, positive, normal.
//
// Types that may be cast into each other without changing a value are one family and share an
// alphabet of values. The bits of digit d are (first + d) << shift in each type:
//
//   family    types                   alphabet (index planes)
//   floats    BF16 F16 F32 F64 C64    bfloat16 patterns 0x1000 + d, 2^14 of them; where F16 occurs
//                                     0x3880 + d, the 3840 values that F16 holds too
//   integers  16 to 64 bits           1 + d, 2^14 of them
//   bytes     all others              0x08 + d, 112 of them: normal in every FP8 type. A packed
//                                     type (F4, F6) is probed byte by byte
#pragma once

#include <cstddef>
#include <cstdint>

#include "layout/dtype.h"

namespace wb::probe {

enum class Family : uint8_t { kFloat, kInteger, kByte };
inline constexpr size_t kFamilies = 3;

Family family_of(DType dtype);
// Bytes of one probed element: of the type, or 1 for packed types.
uint32_t element_bytes(DType dtype);

// What read_digits gives for bits that are no digit.
inline constexpr uint16_t kNoDigit = 0xFFFF;

// The bits of a digit in one type: (first + digit) << shift; of C64 both parts.
struct Coding {
  uint64_t first = 0;
  unsigned shift = 0;
  uint16_t base = 0;  // digits are [0, base)
  DType dtype = DType::kU8;

  void write(uint16_t digit, std::byte* element) const;
};

// `half`: whether F16 occurs anywhere on the way.
Coding index_coding(DType dtype, bool half);
// For random values: of a size that exponentials and other functions do not flatten.
Coding value_coding(DType dtype);
uint16_t index_base(Family family, bool half);
uint16_t value_base(Family family);

// Bits that are a digit of no coding, to find what a loader leaves alone; one of four.
inline constexpr unsigned kSentinels = 4;
void write_sentinel(DType dtype, unsigned which, std::byte* element);

// digits[i] = (digit of element i - mask) mod base, or kNoDigit. mask < base.
void read_digits(const Coding& coding, const std::byte* elements, size_t count, uint16_t mask,
                 uint16_t* digits);

}  // namespace wb::probe
