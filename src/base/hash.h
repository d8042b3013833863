// 128-bit content digest (XXH3) used to name tables, layouts, manifests and plans. Not a defence
// against an attacker: peers are authenticated before their digests are believed.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace wb {

struct Digest {
  uint64_t low = 0;
  uint64_t high = 0;
  auto operator<=>(const Digest&) const = default;
  // 32 lower-case hex digits, high word first.
  std::string hex() const;
  static Result<Digest> from_hex(std::string_view text);
};

// Feeds values in a canonical form (lengths before strings, 64-bit little-endian integers), so that
// two different sequences of values cannot give the same bytes.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  Hasher& add(uint64_t value);
  Hasher& add(int64_t value) { return add(static_cast<uint64_t>(value)); }
  Hasher& add(std::string_view text);
  Digest digest() const;

 private:
  void* state_;
};

Digest digest_of(std::span<const std::byte> bytes);

// A random 128-bit id from the kernel: incarnations, job tokens.
Digest random_id();

}  // namespace wb
