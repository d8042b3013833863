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
uint16_t index_base(Family family, bool half);

// Rounds of random values. A function that leaves most values alone (abs, relu, a clamp) must not
// pass as a copy, and one that flattens large ones (exp) must not pass as a constant:
//
//   round   sign       floats            integers   bytes
//   0       positive   2^-7  to 2^5      below 2^14 as in index planes
//   1       negative   2^8   to 2^16     below 2^14 as in index planes, the top bit set
//   2       positive   2^-14 to 2^16     below 2^14 as in index planes
//
// The sign is one for all tensors of a round: loaders compare the signs of scales. All floats are
// finite, normal and exact in BF16 and F16, so a function that changes only other values (infinite,
// NaN, zero) is taken for a copy.
inline constexpr unsigned kValueRanges = 3;

// Writes the value that `random` (uniform) stands for in a tensor of type `source`, as it is after
// a cast to `dtype`, a type of the same family. Negative values of unsigned types wrap around.
void write_value(DType source, DType dtype, unsigned round, uint64_t random, std::byte* element);

// Bits that are a digit of no coding, to find what a loader leaves alone; one of four.
inline constexpr unsigned kSentinels = 4;
void write_sentinel(DType dtype, unsigned which, std::byte* element);

// digits[i] = (digit of element i - mask) mod base, or kNoDigit. mask < base.
void read_digits(const Coding& coding, const std::byte* elements, size_t count, uint16_t mask,
                 uint16_t* digits);

}  // namespace wb::probe
