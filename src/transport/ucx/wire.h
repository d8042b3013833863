// What the ucx transport writes into manifests and keys. UCX's own blobs are opaque bytes with a
// length; everything is bounds-checked before UCX sees it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/status.h"

namespace wb::ucx {

struct UcxAddress {
  Digest incarnation;  // one life of one domain
  std::string worker;  // ucp_worker_get_address
};

// Memory that peers may read, with UCX's packed key for it.
struct PackedMemory {
  uint64_t address = 0;
  uint64_t bytes = 0;
  std::string rkey;
};

// A region, and the table whose word at stamp_offset(slot) is `stamp` while it is registered.
struct UcxKey {
  Digest incarnation;
  uint32_t slot = 0;
  uint64_t stamp = 0;
  PackedMemory region;
  PackedMemory stamps;
};

std::string encode(const UcxAddress& address);
std::string encode(const UcxKey& key);
Result<UcxAddress> decode_address(std::string_view bytes);
Result<UcxKey> decode_key(std::string_view bytes);

}  // namespace wb::ucx
