#include "probe/alphabet.h"

#include <cstring>

namespace wb::probe {
namespace {

constexpr uint16_t kWideBase = 1u << 14;
constexpr uint16_t kByteBase = 112;
constexpr uint64_t kByteFirst = 0x08;
constexpr uint64_t kBfloat = 0x1000;
// What BF16 and F16 both hold as normals: 30 exponents of 128 mantissas.
constexpr uint64_t kShared = 0x3880;
constexpr uint16_t kSharedBase = 30 * 128;

// Magnitudes of random values.
struct ValueRange {
  uint64_t first = 0;  // bfloat16 pattern
  uint16_t base = 0;
  bool negative = false;
};
constexpr ValueRange kValues[kValueRanges] = {
    {0x3C00, 12 * 128, false}, {0x4380, 8 * 128, true}, {kShared, kSharedBase, false}};
constexpr uint64_t kSentinelBfloat = 0x5001;
constexpr uint64_t kSentinelByte = 0x78;

static_assert(kBfloat + kWideBase <= kSentinelBfloat, "a sentinel is no digit");
static_assert(kByteFirst + kByteBase == kSentinelByte && kSentinelByte + kSentinels <= 0x7C,
              "a sentinel is no digit, and finite in E5M2, whose infinity is 0x7C");
static_assert(kValues[0].first >= kShared && kValues[1].first >= kShared &&
                  kValues[0].first + kValues[0].base <= kShared + kSharedBase &&
                  kValues[1].first + kValues[1].base <= kShared + kSharedBase,
              "random values are exact in F16");
static_assert(kValues[0].first + kValues[0].base <= kValues[1].first,
              "what is clamped between the rounds' magnitudes changes in the second");

// The bits of the float whose bfloat16 pattern is `pattern`: (pattern + first) << shift.
Coding float_coding(DType dtype, uint64_t pattern, uint16_t base) {
  switch (dtype) {
    case DType::kBF16:
      return {pattern, 0, base, dtype};
    case DType::kF16:  // 5 exponent bits with bias 15, 10 mantissa bits
      return {pattern - ((127 - 15) << 7), 3, base, dtype};
    case DType::kF64:  // 11 exponent bits with bias 1023, 52 mantissa bits
      return {pattern + ((1023 - 127) << 7), 45, base, dtype};
    default:
      return {pattern, 16, base, dtype};
  }
}

// `Shifted`: of a type that has more bits than a digit.
template <typename T, bool Shifted>
void read_as(const Coding& coding, const std::byte* elements, size_t count, uint16_t mask,
             uint16_t* digits) {
  const T first = static_cast<T>(coding.first);
  const T base = static_cast<T>(coding.base);
  const T low_bits = static_cast<T>((uint64_t{1} << coding.shift) - 1);
  const unsigned shift = coding.shift;
  const uint16_t wrap = coding.base;
  for (size_t i = 0; i < count; ++i) {
    T bits;
    std::memcpy(&bits, elements + i * sizeof(T), sizeof(T));
    const T digit = static_cast<T>((Shifted ? static_cast<T>(bits >> shift) : bits) - first);
    const bool valid = digit < base && (!Shifted || (bits & low_bits) == 0);
    // Of the two representatives the one in [0, base) is the smaller as an unsigned number.
    const auto down = static_cast<uint16_t>(digit - mask);
    const auto up = static_cast<uint16_t>(down + wrap);
    const uint16_t least = down < up ? down : up;
    digits[i] = static_cast<uint16_t>(least | (valid ? 0 : kNoDigit));
  }
}

template <typename T>
void read_as(const Coding& coding, const std::byte* elements, size_t count, uint16_t mask,
             uint16_t* digits) {
  if (coding.shift == 0) return read_as<T, false>(coding, elements, count, mask, digits);
  return read_as<T, true>(coding, elements, count, mask, digits);
}

void read_complex(const Coding& coding, const std::byte* elements, size_t count, uint16_t mask,
                  uint16_t* digits) {
  Coding part = coding;
  part.dtype = DType::kF32;
  for (size_t i = 0; i < count; ++i) {
    uint16_t both[2];
    read_as<uint32_t>(part, elements + i * 8, 2, mask, both);
    digits[i] = both[0] == both[1] ? both[0] : kNoDigit;
  }
}

void write_bits(DType dtype, uint64_t bits, std::byte* element) {
  if (dtype == DType::kC64) bits |= bits << 32;
  std::memcpy(element, &bits, element_bytes(dtype));
}

// The bits of an integer of type `source` after a cast to a wider type.
uint64_t integer_bits(DType source, uint64_t magnitude, bool negative) {
  const unsigned unused = 64 - 8 * dtype_info(source).unit_bytes;
  const uint64_t bits = (negative ? uint64_t{0} - magnitude : magnitude) << unused;
  const bool is_signed = source == DType::kI16 || source == DType::kI32 || source == DType::kI64;
  return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(bits) >> unused) : bits >> unused;
}

}  // namespace

Family family_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64:
    case DType::kC64:
      return Family::kFloat;
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
    case DType::kU64:
      return Family::kInteger;
    default:
      return Family::kByte;
  }
}

uint32_t element_bytes(DType dtype) {
  return family_of(dtype) == Family::kByte ? 1 : dtype_info(dtype).unit_bytes;
}

void Coding::write(uint16_t digit, std::byte* element) const {
  write_bits(dtype, (first + digit) << shift, element);
}

uint16_t index_base(Family family, bool half) {
  if (family == Family::kByte) return kByteBase;
  return family == Family::kFloat && half ? kSharedBase : kWideBase;
}

Coding index_coding(DType dtype, bool half) {
  const Family family = family_of(dtype);
  const uint16_t base = index_base(family, half);
  if (family == Family::kByte) return {kByteFirst, 0, base, dtype};
  if (family == Family::kInteger) return {1, 0, base, dtype};
  return float_coding(dtype, half ? kShared : kBfloat, base);
}

void write_value(DType source, DType dtype, unsigned round, uint64_t random, std::byte* element) {
  const ValueRange& range = kValues[round % kValueRanges];
  switch (family_of(dtype)) {
    case Family::kByte: {
      const uint64_t bits = kByteFirst + random % kByteBase;
      *element = static_cast<std::byte>(range.negative ? bits | 0x80 : bits);
      return;
    }
    case Family::kInteger:
      write_bits(dtype, integer_bits(source, 1 + random % kWideBase, range.negative), element);
      return;
    case Family::kFloat:
      break;
  }
  const DType part = dtype == DType::kC64 ? DType::kF32 : dtype;
  const Coding coding = float_coding(part, range.first, range.base);
  const size_t bytes = element_bytes(part);
  for (size_t at = 0; at < element_bytes(dtype); at += bytes, random >>= 32) {
    coding.write(static_cast<uint16_t>((random & 0xFFFFFFFF) % range.base), element + at);
    if (range.negative) element[at + bytes - 1] |= std::byte{0x80};
  }
}

void write_sentinel(DType dtype, unsigned which, std::byte* element) {
  switch (family_of(dtype)) {
    case Family::kByte:
      *element = static_cast<std::byte>(kSentinelByte + which);
      return;
    case Family::kInteger:
      write_bits(dtype, kSentinelBfloat + which, element);
      return;
    case Family::kFloat:
      break;
  }
  if (dtype == DType::kF16) {
    // A little above 1: three mantissa bits more than a digit has.
    write_bits(dtype, 0x3C01 + 2 * which, element);
    return;
  }
  const Coding coding = float_coding(dtype, kSentinelBfloat, kSentinels);
  coding.write(static_cast<uint16_t>(which), element);
}

void read_digits(const Coding& coding, const std::byte* elements, size_t count, uint16_t mask,
                 uint16_t* digits) {
  if (coding.dtype == DType::kC64) return read_complex(coding, elements, count, mask, digits);
  switch (element_bytes(coding.dtype)) {
    case 1:
      return read_as<uint8_t>(coding, elements, count, mask, digits);
    case 2:
      return read_as<uint16_t>(coding, elements, count, mask, digits);
    case 4:
      return read_as<uint32_t>(coding, elements, count, mask, digits);
    default:
      return read_as<uint64_t>(coding, elements, count, mask, digits);
  }
}

}  // namespace wb::probe
