#include "transport/local/wire.h"

#include <cstring>
#include <span>

#include "base/byte_reader.h"

namespace wb::local {
namespace {

// First word of every message: what it is, and the version of its form in the last byte.
constexpr uint32_t kAddressTag = 0x57424101;
constexpr uint32_t kKeyTag = 0x57424b01;
constexpr uint32_t kRequestTag = 0x57425101;
constexpr uint32_t kMapGrantTag = 0x57424d01;
constexpr uint32_t kPtraceGrantTag = 0x57425001;
constexpr size_t kMaxSocketName = 100;  // sun_path holds 108 with the leading zero byte

class Writer {
 public:
  explicit Writer(uint32_t tag) { put(tag); }
  template <std::integral T>
  Writer& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& put(const Digest& digest) { return put(digest.low).put(digest.high); }
  Writer& put(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads fields in turn and keeps the first error, so that a decoder is one chain.
class Reader {
 public:
  Reader(std::string_view bytes, uint32_t tag, const char* what)
      : reader_(std::as_bytes(std::span(bytes))), what_(what) {
    uint32_t found = 0;
    get(found);
    if (status_.ok() && found != tag) status_ = bad("not of the form this version reads");
  }
  template <std::integral T>
  Reader& get(T& out) {
    if (!status_.ok()) return *this;
    auto value = reader_.read<T>();
    if (value.ok()) {
      out = *value;
    } else {
      status_ = bad(value.status().message());
    }
    return *this;
  }
  Reader& get(bool& out) {
    uint8_t byte = 0;
    get(byte);
    if (status_.ok() && byte > 1) status_ = bad("a flag is neither 0 nor 1");
    out = byte == 1;
    return *this;
  }
  Reader& get(Digest& out) { return get(out.low).get(out.high); }
  Reader& get(std::string& out, size_t limit) {
    uint32_t size = 0;
    get(size);
    if (!status_.ok()) return *this;
    if (size > limit) {
      status_ = bad("a text is too long");
      return *this;
    }
    auto taken = reader_.take(size);
    if (taken.ok()) {
      out.assign(reinterpret_cast<const char*>(taken->data()), taken->size());
    } else {
      status_ = bad(taken.status().message());
    }
    return *this;
  }
  Status end() {
    if (status_.ok() && reader_.remaining() != 0) status_ = bad("bytes follow its end");
    return status_;
  }

 private:
  Status bad(const std::string& why) const {
    return Status(Code::kBadData, std::string("local transport: a peer's ") + what_ + ": " + why);
  }
  ByteReader reader_;
  const char* what_;
  Status status_;
};

}  // namespace

std::string encode(const ProcessAddress& a) {
  return Writer(kAddressTag)
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
  WB_RETURN_IF_ERROR(Reader(bytes, kAddressTag, "address")
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
  return Writer(kKeyTag)
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
  WB_RETURN_IF_ERROR(Reader(bytes, kKeyTag, "region key")
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
  return Writer(kRequestTag)
      .put(static_cast<uint8_t>(r.ask))
      .put(r.reader_pid)
      .put(r.slot)
      .put(r.stamp)
      .take();
}

Result<Request> decode_request(std::string_view bytes) {
  Request r;
  uint8_t ask = 0;
  WB_RETURN_IF_ERROR(Reader(bytes, kRequestTag, "request")
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
  return Writer(kMapGrantTag).put(g.nonce).put(std::string_view(g.socket_name)).take();
}

Result<MapGrant> decode_map_grant(std::string_view bytes) {
  MapGrant g;
  WB_RETURN_IF_ERROR(
      Reader(bytes, kMapGrantTag, "grant").get(g.nonce).get(g.socket_name, kMaxSocketName).end());
  return g;
}

std::string encode(const PtraceGrant& g) {
  return Writer(kPtraceGrantTag)
      .put(static_cast<uint8_t>(g.dumpable))
      .put(g.yama_scope)
      .put(g.granted)
      .take();
}

Result<PtraceGrant> decode_ptrace_grant(std::string_view bytes) {
  PtraceGrant g;
  WB_RETURN_IF_ERROR(Reader(bytes, kPtraceGrantTag, "grant")
                         .get(g.dumpable)
                         .get(g.yama_scope)
                         .get(g.granted)
                         .end());
  return g;
}

}  // namespace wb::local
