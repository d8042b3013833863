// Messages of the transports: a tag that names form and version, then little-endian fields. Reading
// checks bounds first and keeps the first error, so that a decoder is one chain.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_reader.h"
#include "base/hash.h"
#include "base/status.h"

namespace wb {

class MessageWriter {
 public:
  explicit MessageWriter(uint32_t tag) { put(tag); }
  template <std::integral T>
  MessageWriter& put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  MessageWriter& put(const Digest& digest) { return put(digest.low).put(digest.high); }
  MessageWriter& put(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// `what` names the message in errors: "local transport: a peer's address".
class MessageReader {
 public:
  MessageReader(std::string_view bytes, uint32_t tag, const char* what)
      : reader_(std::as_bytes(std::span(bytes))), what_(what) {
    uint32_t found = 0;
    get(found);
    if (status_.ok() && found != tag) status_ = bad("not of the form this version reads");
  }
  template <std::integral T>
  MessageReader& get(T& out) {
    if (!status_.ok()) return *this;
    auto value = reader_.read<T>();
    if (value.ok()) {
      out = *value;
    } else {
      status_ = bad(value.status().message());
    }
    return *this;
  }
  MessageReader& get(bool& out) {
    uint8_t byte = 0;
    get(byte);
    if (status_.ok() && byte > 1) status_ = bad("a flag is neither 0 nor 1");
    out = byte == 1;
    return *this;
  }
  MessageReader& get(Digest& out) { return get(out.low).get(out.high); }
  MessageReader& get(std::string& out, size_t limit) {
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
    return Status(Code::kBadData, std::string(what_) + ": " + why);
  }
  ByteReader reader_;
  const char* what_;
  Status status_;
};

}  // namespace wb
