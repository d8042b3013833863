// Reads little-endian integers and byte runs from untrusted memory: bounds first, then bytes.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/status.h"

namespace wb {

static_assert(std::endian::native == std::endian::little, "wire formats are read in place");

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  size_t remaining() const { return rest_.size(); }

  template <std::integral T>
  Result<T> read() {
    T value{};
    if (rest_.size() < sizeof value) return short_of(sizeof value);
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }

  Result<std::span<const std::byte>> take(uint64_t count) {
    if (count > rest_.size()) return short_of(count);
    const auto taken = rest_.first(static_cast<size_t>(count));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  Status short_of(uint64_t wanted) const {
    return Status(Code::kBadData, "truncated: " + std::to_string(wanted) + " bytes wanted, " +
                                      std::to_string(rest_.size()) + " left");
  }
  std::span<const std::byte> rest_;
};

}  // namespace wb
