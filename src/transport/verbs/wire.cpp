#include "transport/verbs/wire.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "transport/codec.h"
#include "transport/stamp_table.h"

namespace wb::verbs {
namespace {

constexpr uint32_t kAddressTag = 0x57425601;
constexpr uint32_t kKeyTag = 0x57425602;
constexpr uint32_t kRequestTag = 0x57425603;
constexpr uint32_t kGrantTag = 0x57425604;
// Queue pair numbers and packet sequence numbers have 24 bits on the wire.
constexpr uint32_t kMask24 = 0xffffff;

Status bad(const std::string& what) { return Status(Code::kBadData, "verbs transport: " + what); }

void put(MessageWriter& writer, const PathEnd& end) {
  for (const uint8_t byte : end.gid) writer.put(byte);
  writer.put(end.lid).put(static_cast<uint8_t>(end.layer)).put(end.mtu);
}

void get(MessageReader& reader, PathEnd& end) {
  for (uint8_t& byte : end.gid) reader.get(byte);
  uint8_t layer = 0;
  reader.get(end.lid).get(layer).get(end.mtu);
  end.layer = static_cast<LinkLayer>(layer);
}

bool sensible(const PathEnd& end) {
  return (end.layer == LinkLayer::kInfiniBand || end.layer == LinkLayer::kEthernet) &&
         end.mtu >= 1 && end.mtu <= 5;
}

void put(MessageWriter& writer, const std::vector<QueuePairOffer>& offers) {
  writer.put(static_cast<uint8_t>(offers.size()));
  for (const QueuePairOffer& offer : offers) {
    writer.put(offer.number).put(offer.psn).put(offer.depth);
  }
}

// The count is bounded here, so that nothing is made room for on a peer's word.
void get(MessageReader& reader, std::vector<QueuePairOffer>& offers) {
  uint8_t count = 0;
  reader.get(count);
  if (count > kMaxQueuePairs) count = 0;
  offers.resize(count);
  for (QueuePairOffer& offer : offers) {
    reader.get(offer.number).get(offer.psn).get(offer.depth);
  }
}

bool sensible(const std::vector<QueuePairOffer>& offers) {
  return !offers.empty() && std::all_of(offers.begin(), offers.end(), [](const auto& offer) {
    return offer.number != 0 && offer.number <= kMask24 && offer.psn <= kMask24 && offer.depth != 0;
  });
}

}  // namespace

std::string encode(const VerbsAddress& address) {
  MessageWriter writer(kAddressTag);
  writer.put(address.incarnation).put(address.network).put(address.stamp_table);
  writer.put(static_cast<uint8_t>(address.rails.size()));
  for (const RailAddress& rail : address.rails) {
    put(writer, rail.end);
    writer.put(rail.gbps).put(rail.stamp_rkey);
  }
  return writer.take();
}

Result<VerbsAddress> decode_address(std::string_view bytes) {
  VerbsAddress address;
  MessageReader reader(bytes, kAddressTag, "verbs transport: a peer's address");
  uint8_t rails = 0;
  reader.get(address.incarnation).get(address.network).get(address.stamp_table).get(rails);
  if (rails > kMaxRails) return bad("a peer's address names too many rails");
  address.rails.resize(rails);
  for (RailAddress& rail : address.rails) {
    get(reader, rail.end);
    reader.get(rail.gbps).get(rail.stamp_rkey);
  }
  WB_RETURN_IF_ERROR(reader.end());
  const auto whole = [](const RailAddress& rail) { return sensible(rail.end); };
  if (address.rails.empty() || address.stamp_table == 0 || address.stamp_table % 8 != 0 ||
      address.stamp_table > UINT64_MAX - kStampTableBytes ||
      !std::all_of(address.rails.begin(), address.rails.end(), whole)) {
    return bad("a peer's address names no path, or no stamp table");
  }
  return address;
}

std::string encode(const VerbsKey& key) {
  MessageWriter writer(kKeyTag);
  writer.put(key.incarnation).put(key.slot).put(key.stamp).put(key.address).put(key.bytes);
  writer.put(key.slice_bytes).put(key.rails);
  for (const uint32_t rkey : key.rkeys) writer.put(rkey);
  return writer.take();
}

Result<VerbsKey> decode_key(std::string_view bytes) {
  VerbsKey key;
  MessageReader reader(bytes, kKeyTag, "verbs transport: a peer's region key");
  reader.get(key.incarnation).get(key.slot).get(key.stamp).get(key.address).get(key.bytes);
  reader.get(key.slice_bytes).get(key.rails);
  if (key.stamp == 0 || key.slot >= kStampSlots || key.address == 0 || key.bytes == 0 ||
      key.slice_bytes == 0 || !checked_add(key.address, key.bytes)) {
    return bad("a peer's region key names no memory");
  }
  if (key.rails == 0 || key.rails > kMaxRails || key.slices() > kMaxSlices / key.rails) {
    return bad("a peer's region key has more parts than a region can have");
  }
  key.rkeys.resize(key.rails * key.slices());
  for (uint32_t& rkey : key.rkeys) reader.get(rkey);
  WB_RETURN_IF_ERROR(reader.end());
  return key;
}

std::string encode(const ConnectRequest& request) {
  MessageWriter writer(kRequestTag);
  writer.put(request.source).put(request.reader);
  writer.put(static_cast<uint8_t>(request.ended.size()));
  for (const Digest& ended : request.ended) writer.put(ended);
  writer.put(static_cast<uint8_t>(request.groups.size()));
  for (const ConnectRequest::Group& group : request.groups) {
    writer.put(group.source_rail);
    put(writer, group.reader);
    put(writer, group.offers);
  }
  return writer.take();
}

Result<ConnectRequest> decode_request(std::string_view bytes) {
  ConnectRequest request;
  MessageReader reader(bytes, kRequestTag, "verbs transport: a reader's request");
  uint8_t ended = 0;
  uint8_t groups = 0;
  reader.get(request.source).get(request.reader).get(ended);
  if (ended > kMaxEnded) return bad("a reader's request ends too many connections");
  request.ended.resize(ended);
  for (Digest& one : request.ended) reader.get(one);
  reader.get(groups);
  if (groups > kMaxRails) return bad("a reader's request names too many rails");
  request.groups.resize(groups);
  for (ConnectRequest::Group& group : request.groups) {
    reader.get(group.source_rail);
    get(reader, group.reader);
    get(reader, group.offers);
  }
  WB_RETURN_IF_ERROR(reader.end());
  const auto whole = [](const ConnectRequest::Group& group) {
    return sensible(group.reader) && sensible(group.offers);
  };
  if (request.groups.empty() || !std::all_of(request.groups.begin(), request.groups.end(), whole)) {
    return bad("a reader's request asks for no queue pair");
  }
  return request;
}

std::string encode(const ConnectGrant& grant) {
  MessageWriter writer(kGrantTag);
  writer.put(grant.connection).put(static_cast<uint8_t>(grant.groups.size()));
  for (const ConnectGrant::Group& group : grant.groups) {
    writer.put(group.mtu);
    put(writer, group.grants);
  }
  return writer.take();
}

Result<ConnectGrant> decode_grant(std::string_view bytes) {
  ConnectGrant grant;
  MessageReader reader(bytes, kGrantTag, "verbs transport: a source's grant");
  uint8_t groups = 0;
  reader.get(grant.connection).get(groups);
  if (groups > kMaxRails) return bad("a source's grant names too many rails");
  grant.groups.resize(groups);
  for (ConnectGrant::Group& group : grant.groups) {
    reader.get(group.mtu);
    get(reader, group.grants);
  }
  WB_RETURN_IF_ERROR(reader.end());
  const auto whole = [](const ConnectGrant::Group& group) {
    return group.mtu >= 1 && group.mtu <= 5 && sensible(group.grants);
  };
  if (grant.groups.empty() || !std::all_of(grant.groups.begin(), grant.groups.end(), whole)) {
    return bad("a source's grant has no queue pair");
  }
  return grant;
}

}  // namespace wb::verbs
