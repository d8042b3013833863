#include "transport/ucx/wire.h"

#include "transport/codec.h"

namespace wb::ucx {
namespace {

constexpr uint32_t kAddressTag = 0x57425501;
constexpr uint32_t kKeyTag = 0x57425201;
// Far above what UCX packs for a machine full of devices.
constexpr size_t kMaxBlob = 64u << 10;

MessageWriter& put(MessageWriter& writer, const PackedMemory& memory) {
  return writer.put(memory.address).put(memory.bytes).put(std::string_view(memory.rkey));
}

MessageReader& get(MessageReader& reader, PackedMemory& memory) {
  return reader.get(memory.address).get(memory.bytes).get(memory.rkey, kMaxBlob);
}

bool sensible(const PackedMemory& memory) {
  return memory.address != 0 && memory.bytes != 0 &&
         memory.address + memory.bytes > memory.address && !memory.rkey.empty();
}

}  // namespace

std::string encode(const UcxAddress& address) {
  return MessageWriter(kAddressTag)
      .put(address.incarnation)
      .put(std::string_view(address.worker))
      .take();
}

Result<UcxAddress> decode_address(std::string_view bytes) {
  UcxAddress address;
  WB_RETURN_IF_ERROR(MessageReader(bytes, kAddressTag, "ucx transport: a peer's address")
                         .get(address.incarnation)
                         .get(address.worker, kMaxBlob)
                         .end());
  if (address.worker.empty()) return Status(Code::kBadData, "ucx transport: an empty address");
  return address;
}

std::string encode(const UcxKey& key) {
  MessageWriter writer(kKeyTag);
  writer.put(key.incarnation).put(key.slot).put(key.stamp);
  return put(put(writer, key.region), key.stamps).take();
}

Result<UcxKey> decode_key(std::string_view bytes) {
  UcxKey key;
  MessageReader reader(bytes, kKeyTag, "ucx transport: a peer's region key");
  reader.get(key.incarnation).get(key.slot).get(key.stamp);
  WB_RETURN_IF_ERROR(get(get(reader, key.region), key.stamps).end());
  if (!sensible(key.region) || !sensible(key.stamps) || key.stamp == 0) {
    return Status(Code::kBadData, "ucx transport: a region key that names no memory");
  }
  return key;
}

}  // namespace wb::ucx
