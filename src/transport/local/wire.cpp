#include "transport/local/wire.h"

#include "transport/codec.h"

namespace wb::local {
namespace {

// First word of every message: what it is, and the version of its form in the last byte.
constexpr uint32_t kAddressTag = 0x57424101;
constexpr uint32_t kKeyTag = 0x57424b01;
constexpr uint32_t kRequestTag = 0x57425101;
constexpr uint32_t kMapGrantTag = 0x57424d01;
constexpr uint32_t kPtraceGrantTag = 0x57425001;
constexpr size_t kMaxSocketName = 100;  // sun_path holds 108 with the leading zero byte

}  // namespace

std::string encode(const ProcessAddress& a) {
  return MessageWriter(kAddressTag)
      .put(a.boot_id)
      .put(a.pid_namespace)
      .put(a.net_namespace)
      .put(a.pid)
      .put(a.start_ticks)
      .put(a.incarnation)
      .put(a.stamp_table)
      .take();
}

Result<ProcessAddress> decode_address(std::string_view bytes) {
  ProcessAddress a;
  WB_RETURN_IF_ERROR(MessageReader(bytes, kAddressTag, "local transport: a peer\'s address")
                         .get(a.boot_id)
                         .get(a.pid_namespace)
                         .get(a.net_namespace)
                         .get(a.pid)
                         .get(a.start_ticks)
                         .get(a.incarnation)
                         .get(a.stamp_table)
                         .end());
  return a;
}

std::string encode(const RegionKey& k) {
  return MessageWriter(kKeyTag)
      .put(k.incarnation)
      .put(k.slot)
      .put(k.stamp)
      .put(k.address)
      .put(k.bytes)
      .put(static_cast<uint8_t>(k.mappable))
      .take();
}

Result<RegionKey> decode_key(std::string_view bytes) {
  RegionKey k;
  WB_RETURN_IF_ERROR(MessageReader(bytes, kKeyTag, "local transport: a peer\'s region key")
                         .get(k.incarnation)
                         .get(k.slot)
                         .get(k.stamp)
                         .get(k.address)
                         .get(k.bytes)
                         .get(k.mappable)
                         .end());
  if (k.bytes == 0 || k.stamp == 0 || k.address == 0 || k.address + k.bytes < k.address) {
    return Status(Code::kBadData,
                  "local transport: a peer's region key names an empty region, or "
                  "one that wraps around");
  }
  return k;
}

std::string encode(const Request& r) {
  return MessageWriter(kRequestTag)
      .put(static_cast<uint8_t>(r.ask))
      .put(r.reader_pid)
      .put(r.slot)
      .put(r.stamp)
      .take();
}

Result<Request> decode_request(std::string_view bytes) {
  Request r;
  uint8_t ask = 0;
  WB_RETURN_IF_ERROR(MessageReader(bytes, kRequestTag, "local transport: a peer\'s request")
                         .get(ask)
                         .get(r.reader_pid)
                         .get(r.slot)
                         .get(r.stamp)
                         .end());
  r.ask = static_cast<Ask>(ask);
  if (r.ask != Ask::kMap && r.ask != Ask::kPtrace) {
    return Status(Code::kBadData, "local transport: a peer's request asks for nothing known");
  }
  return r;
}

std::string encode(const MapGrant& g) {
  return MessageWriter(kMapGrantTag).put(g.nonce).put(std::string_view(g.socket_name)).take();
}

Result<MapGrant> decode_map_grant(std::string_view bytes) {
  MapGrant g;
  WB_RETURN_IF_ERROR(MessageReader(bytes, kMapGrantTag, "local transport: a peer\'s grant")
                         .get(g.nonce)
                         .get(g.socket_name, kMaxSocketName)
                         .end());
  return g;
}

std::string encode(const PtraceGrant& g) {
  return MessageWriter(kPtraceGrantTag)
      .put(static_cast<uint8_t>(g.dumpable))
      .put(g.yama_scope)
      .put(g.granted)
      .take();
}

Result<PtraceGrant> decode_ptrace_grant(std::string_view bytes) {
  PtraceGrant g;
  WB_RETURN_IF_ERROR(MessageReader(bytes, kPtraceGrantTag, "local transport: a peer\'s grant")
                         .get(g.dumpable)
                         .get(g.yama_scope)
                         .get(g.granted)
                         .end());
  return g;
}

}  // namespace wb::local
