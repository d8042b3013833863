// Integer arithmetic that reports overflow instead of wrapping. Sizes and offsets that come from
// outside, or are computed from what came from outside, go through these.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>

namespace wb {

template <std::integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  T out{};
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <std::integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  T out{};
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

// Value-preserving conversion, or nothing.
template <std::integral To, std::integral From>
constexpr std::optional<To> checked_cast(From value) {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

// Whether [offset, offset + length) lies inside [0, size), without overflow on the way.
constexpr bool range_inside(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

constexpr uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace wb
