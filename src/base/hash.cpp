#include "base/hash.h"

#include <sys/random.h>

#include <cstdio>
#include <cstdlib>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace wb {
namespace {

XXH3_state_t* state_of(void* state) { return static_cast<XXH3_state_t*>(state); }

Digest from_xxh(XXH128_hash_t hash) { return Digest{hash.low64, hash.high64}; }

}  // namespace

std::string Digest::hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

Result<Digest> Digest::from_hex(std::string_view text) {
  Digest out;
  if (text.size() != 32) return Status(Code::kBadData, "a digest has 32 hex digits");
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint64_t>(c - 'a') + 10;
    } else {
      return Status(Code::kBadData, "a digest has lower-case hex digits only");
    }
    uint64_t& word = i < 16 ? out.high : out.low;
    word = word << 4 | digit;
  }
  return out;
}

Hasher::Hasher() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_of(state_));
}

Hasher::~Hasher() { XXH3_freeState(state_of(state_)); }

Hasher& Hasher::add(uint64_t value) {
  XXH3_128bits_update(state_of(state_), &value, sizeof value);
  return *this;
}

Hasher& Hasher::add(std::string_view text) {
  add(static_cast<uint64_t>(text.size()));
  XXH3_128bits_update(state_of(state_), text.data(), text.size());
  return *this;
}

Digest Hasher::digest() const { return from_xxh(XXH3_128bits_digest(state_of(state_))); }

Digest digest_of(std::span<const std::byte> bytes) {
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}

Digest random_id() {
  Digest id;
  size_t done = 0;
  auto* bytes = reinterpret_cast<unsigned char*>(&id);
  while (done < sizeof id) {
    const ssize_t got = getrandom(bytes + done, sizeof id - done, 0);
    if (got <= 0) std::abort();  // no kernel of the last ten years fails here
    done += static_cast<size_t>(got);
  }
  return id;
}

}  // namespace wb
