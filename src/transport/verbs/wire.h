// What the verbs transport writes into manifests, keys and exchanges. Versioned, every count
// bounded, everything read from a peer bounds-checked before it is used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "transport/verbs/gid.h"

namespace wb::verbs {

constexpr uint32_t kMaxRails = 32;         // ports of one process
constexpr uint32_t kMaxQueuePairs = 17;    // of one pair of NICs: 16 for data, 1 for words
constexpr uint32_t kMaxSlices = 1u << 16;  // registrations of one region, over all rails
constexpr uint32_t kMaxEnded = 64;         // connections that one request may end

// One end of a path: what the other side needs to address it.
struct PathEnd {
  Gid gid{};
  uint16_t lid = 0;
  LinkLayer layer = LinkLayer::kEthernet;
  uint8_t mtu = 1;  // ibv_mtu: 1 is 256 bytes, 5 is 4096
};

struct RailAddress {
  PathEnd end;
  uint32_t gbps = 0;
  uint32_t stamp_rkey = 0;  // of the stamp table, through this rail
};

struct VerbsAddress {
  Digest incarnation;  // one life of one domain
  Digest network;      // zero: real NICs; else the id of a fake fabric, which is in one process
  uint64_t stamp_table = 0;
  std::vector<RailAddress> rails;
};

// A region: rkeys[rail * slices + slice], where slice i covers bytes from i * slice_bytes.
struct VerbsKey {
  Digest incarnation;
  uint32_t slot = 0;
  uint64_t stamp = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t slice_bytes = 0;
  uint32_t rails = 0;
  std::vector<uint32_t> rkeys;

  uint64_t slices() const { return (bytes - 1) / slice_bytes + 1; }
};

struct QueuePairOffer {
  uint32_t number = 0;
  uint32_t psn = 0;   // random; of the first packet that it sends
  uint8_t depth = 0;  // READs: that it wants to have outstanding (offer), that it answers (grant)
};

// A reader asks for queue pairs of the source: one group per pair of rails.
struct ConnectRequest {
  struct Group {
    uint8_t source_rail = 0;
    PathEnd reader;
    std::vector<QueuePairOffer> offers;
  };
  Digest source;              // incarnation that it means
  Digest reader;              // its own incarnation
  std::vector<Digest> ended;  // its former connections to this source that are closed
  std::vector<Group> groups;
};

struct ConnectGrant {
  struct Group {
    uint8_t mtu = 1;
    std::vector<QueuePairOffer> grants;  // parallel to the offers
  };
  Digest connection;  // names it when it has ended
  std::vector<Group> groups;
};

std::string encode(const VerbsAddress& address);
std::string encode(const VerbsKey& key);
std::string encode(const ConnectRequest& request);
std::string encode(const ConnectGrant& grant);

// kBadData for anything that encode() did not make, trailing bytes included.
Result<VerbsAddress> decode_address(std::string_view bytes);
Result<VerbsKey> decode_key(std::string_view bytes);
Result<ConnectRequest> decode_request(std::string_view bytes);
Result<ConnectGrant> decode_grant(std::string_view bytes);

}  // namespace wb::verbs
