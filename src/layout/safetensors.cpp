#include "layout/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <unordered_set>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "layout/json_events.h"
#include "layout/quote.h"

namespace wb {
namespace {

constexpr uint64_t kLengthBytes = sizeof(uint64_t);
constexpr std::string_view kMetadata = "__metadata__";

Status bad_tensor(const std::string& name, const std::string& what) {
  return Status(Code::kBadData, "tensor " + quote(name) + ": " + what).with_tensor(name);
}

// One entry of the header; offsets are from the start of the data.
struct Entry {
  TensorInfo info;
  std::vector<uint64_t> offsets;
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
};

// Depth 1 is the header's object, depth 2 a tensor's or __metadata__, depth 3 a tensor's lists.
// Fields of a tensor that the format does not define are skipped, as the reference skips them.
class HeaderListener : public JsonListener {
 public:
  std::vector<Entry> take() && { return std::move(entries_); }

 private:
  bool in_metadata() const { return key(1) == kMetadata; }

  Status on_value(const Value& value) override {
    switch (depth()) {
      case 0:
        if (value.kind == Kind::kObject) return Status();
        return Status(Code::kBadData, "not a JSON object");
      case 1:
        return member(value);
      case 2:
        return in_metadata() ? metadata(value) : field(value);
      default:
        return list_item(value);
    }
  }

  Status on_key() override {
    if (depth() == 1 && in_metadata()) {
      if (has_metadata_) return Status(Code::kBadData, "__metadata__ is there twice");
      has_metadata_ = true;
    }
    if (depth() == 2 && in_metadata() && !metadata_keys_.insert(key(2)).second) {
      return Status(Code::kBadData, "__metadata__ has " + quote(key(2)) + " twice");
    }
    return Status();
  }

  Status on_end() override {
    if (depth() != 1 || in_metadata()) return Status();
    const Entry& entry = entries_.back();
    if (!entry.has_dtype) return bad("has no dtype");
    if (!entry.has_shape) return bad("has no shape");
    if (!entry.has_offsets || entry.offsets.size() != 2) {
      return bad("data_offsets must be two integers");
    }
    return Status();
  }

  Status member(const Value& value) {
    if (in_metadata()) {
      if (value.kind == Kind::kObject || value.kind == Kind::kNull) return Status();
      return Status(Code::kBadData, "__metadata__ is not an object");
    }
    if (value.kind != Kind::kObject) {
      return bad_tensor(key(1), "is not described by an object");
    }
    entries_.emplace_back();
    entries_.back().info.name = key(1);
    return Status();
  }

  Status metadata(const Value& value) {
    if (value.kind == Kind::kString) return Status();
    return Status(Code::kBadData, "__metadata__ " + quote(key(2)) + " is not a string");
  }

  Status field(const Value& value) {
    Entry& entry = entries_.back();
    const std::string& name = key(2);
    if (name == "dtype") {
      if (std::exchange(entry.has_dtype, true)) return bad("has dtype twice");
      if (value.kind != Kind::kString) return bad("dtype is not a string");
      const DTypeInfo* type = find_dtype(value.text);
      if (type == nullptr) {
        return Status(Code::kUnsupported,
                      "tensor " + quote(entry.info.name) + ": unknown dtype " + quote(value.text))
            .with_tensor(entry.info.name);
      }
      entry.info.dtype = type->dtype;
    } else if (name == "shape") {
      if (std::exchange(entry.has_shape, true)) return bad("has shape twice");
      if (value.kind != Kind::kArray) return bad("shape is not a list");
    } else if (name == "data_offsets") {
      if (std::exchange(entry.has_offsets, true)) return bad("has data_offsets twice");
      if (value.kind != Kind::kArray) return bad("data_offsets is not a list");
    }
    return Status();
  }

  Status list_item(const Value& value) {
    const std::string& name = key(2);
    const bool shape = name == "shape";
    if (in_metadata() || (!shape && name != "data_offsets")) return Status();
    Entry& entry = entries_.back();
    if (value.kind != Kind::kUnsigned) return bad(name + " holds what is not an integer >= 0");
    if (!shape) {
      if (entry.offsets.size() == 2) return bad("data_offsets must be two integers");
      entry.offsets.push_back(value.number);
      return Status();
    }
    if (entry.info.shape.size() == static_cast<size_t>(kMaxRank)) {
      return Status(Code::kUnsupported, "tensor " + quote(entry.info.name) + ": more than " +
                                            std::to_string(kMaxRank) + " dimensions")
          .with_tensor(entry.info.name);
    }
    const auto extent = checked_cast<int64_t>(value.number);
    if (!extent) return bad("a dimension of 2^63 or more");
    entry.info.shape.push_back(*extent);
    return Status();
  }

  Status bad(const std::string& what) const { return bad_tensor(entries_.back().info.name, what); }

  std::vector<Entry> entries_;
  std::unordered_set<std::string> metadata_keys_;
  bool has_metadata_ = false;
};

// In the reference's order of multiplication, so that the same shapes overflow.
std::optional<uint64_t> bits_of(const TensorInfo& info) {
  uint64_t count = 1;
  for (const int64_t extent : info.shape) {
    const auto grown = checked_mul(count, static_cast<uint64_t>(extent));
    if (!grown) return std::nullopt;
    count = *grown;
  }
  return checked_mul<uint64_t>(count, dtype_info(info.dtype).bits);
}

Status check_size(const Entry& entry) {
  const uint64_t begin = entry.offsets[0];
  const uint64_t end = entry.offsets[1];
  const auto bits = bits_of(entry.info);
  if (!bits) return bad_tensor(entry.info.name, "its size overflows");
  if (*bits % 8 != 0) return bad_tensor(entry.info.name, "its data does not end on a byte");
  if (end - begin != *bits / 8) {
    return bad_tensor(entry.info.name, "its range has " + std::to_string(end - begin) +
                                           " bytes, its dtype and shape need " +
                                           std::to_string(*bits / 8));
  }
  return Status();
}

Status check_names(const std::vector<Entry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const Entry& entry : entries) names.push_back(entry.info.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) return bad_tensor(std::string(*twice), "is there twice");
  return Status();
}

// The ranges, in order, are the data from its first to its last byte.
Status check_ranges(std::vector<Entry>* entries, uint64_t data_bytes) {
  std::sort(entries->begin(), entries->end(),
            [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });
  uint64_t at = 0;
  for (const Entry& entry : *entries) {
    const uint64_t begin = entry.offsets[0];
    const uint64_t end = entry.offsets[1];
    if (end < begin) return bad_tensor(entry.info.name, "its range ends before it begins");
    if (begin != at) {
      return bad_tensor(entry.info.name, "its data begins at " + std::to_string(begin) +
                                             (begin < at ? ", inside" : ", after a gap behind") +
                                             " what ends at " + std::to_string(at));
    }
    WB_RETURN_IF_ERROR(check_size(entry));
    at = end;
  }
  if (at != data_bytes) {
    return Status(Code::kBadData, "the tensors have " + std::to_string(at) +
                                      " bytes of data, the file " + std::to_string(data_bytes));
  }
  return Status();
}

}  // namespace

Result<uint64_t> safetensors_header_bytes(std::span<const std::byte> first_bytes,
                                          uint64_t file_size) {
  ByteReader reader(first_bytes);
  WB_ASSIGN_OR_RETURN(const uint64_t length, reader.read<uint64_t>());
  if (length > kMaxSafetensorsHeader) {
    return Status(Code::kBadData, "a header of " + std::to_string(length) + " bytes; at most " +
                                      std::to_string(kMaxSafetensorsHeader));
  }
  if (!range_inside(kLengthBytes, length, file_size)) {
    return Status(Code::kBadData, "truncated: a header of " + std::to_string(length) +
                                      " bytes in a file of " + std::to_string(file_size));
  }
  return kLengthBytes + length;
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> bytes,
                                                   uint64_t file_size) {
  WB_ASSIGN_OR_RETURN(const uint64_t data_start, safetensors_header_bytes(bytes, file_size));
  ByteReader reader(bytes.subspan(kLengthBytes));
  WB_ASSIGN_OR_RETURN(const auto text, reader.take(data_start - kLengthBytes));
  const std::string_view json(reinterpret_cast<const char*>(text.data()), text.size());
  if (json.empty() || json.front() != '{') {
    return Status(Code::kBadData, "the header does not start with '{'");
  }
  HeaderListener listener;
  WB_RETURN_IF_ERROR(listener.walk(json));
  std::vector<Entry> entries = std::move(listener).take();
  WB_RETURN_IF_ERROR(check_names(entries));
  WB_RETURN_IF_ERROR(check_ranges(&entries, file_size - data_start));

  SafetensorsHeader header;
  header.tensors.reserve(entries.size());
  header.places.reserve(entries.size());
  for (Entry& entry : entries) {
    header.places.push_back(
        {0, data_start + entry.offsets[0], entry.offsets[1] - entry.offsets[0]});
    header.tensors.push_back(std::move(entry.info));
  }
  return header;
}

std::string make_safetensors_header(std::span<const TensorInfo> tensors) {
  // Loaders of PyTorch checkpoints insist on the format.
  std::string json = R"({"__metadata__":{"format":"pt"})";
  uint64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    const uint64_t end = offset + tensor.bytes();
    json += ',' + nlohmann::json(tensor.name).dump() + R"(:{"dtype":")";
    json += dtype_info(tensor.dtype).name;
    json += R"(","shape":)" + nlohmann::json(tensor.shape).dump() + R"(,"data_offsets":[)" +
            std::to_string(offset) + ',' + std::to_string(end) + "]}";
    offset = end;
  }
  json += '}';
  json.resize(round_up(json.size(), kLengthBytes), ' ');
  const uint64_t length = json.size();
  std::string out(kLengthBytes, '\0');
  std::memcpy(out.data(), &length, kLengthBytes);
  return out + json;
}

}  // namespace wb
