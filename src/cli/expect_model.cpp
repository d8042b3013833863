#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "cli/expect.h"

namespace wb::cli {
namespace {

using nlohmann::json;

Result<json> read_json(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status(Code::kNotFound, "cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  auto value = json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return Status(Code::kBadData, path.string() + " is not a JSON object");
  return value;
}

// Zero when the key is absent, null or not a count.
uint64_t number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

uint32_t width_of(std::string_view dtype) {
  for (const char* name : {"BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"}) {
    if (dtype == name) return 1;
  }
  for (const char* name : {"I16", "U16", "F16", "BF16"}) {
    if (dtype == name) return 2;
  }
  for (const char* name : {"I32", "U32", "F32"}) {
    if (dtype == name) return 4;
  }
  for (const char* name : {"I64", "U64", "F64", "C64"}) {
    if (dtype == name) return 8;
  }
  return 0;
}

Result<SourceConfig> read_config(const std::filesystem::path& folder) {
  WB_ASSIGN_OR_RETURN(const json text, read_json(folder / "config.json"));
  SourceConfig c;
  if (const auto type = text.find("model_type"); type != text.end() && type->is_string()) {
    c.family = type->get<std::string>();
  }
  c.layers = number(text, "num_hidden_layers");
  c.hidden = number(text, "hidden_size");
  c.heads = number(text, "num_attention_heads");
  c.kv_heads = number(text, "num_key_value_heads");
  c.head_dim = number(text, "head_dim");
  c.vocab = number(text, "vocab_size");
  c.experts = number(text, "num_experts") + number(text, "n_routed_experts");
  c.first_dense = number(text, "first_k_dense_replace");
  c.shared_experts = number(text, "n_shared_experts");
  c.q_lora_rank = number(text, "q_lora_rank");
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.head_dim == 0 && c.heads != 0) c.head_dim = c.hidden / c.heads;
  const auto tied = text.find("tie_word_embeddings");
  c.tied = tied != text.end() && tied->is_boolean() && tied->get<bool>();
  return c;
}

}  // namespace

const SourceTensor* SourceModel::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Status SourceModel::add_file(const std::filesystem::path& path) {
  WB_ASSIGN_OR_RETURN(auto file, FileMap::open(path));
  const auto bytes = file->bytes();
  const auto malformed = [&](std::string_view what) {
    return Status(Code::kBadData, path.string() + ": " + std::string(what));
  };
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes) return malformed("shorter than its length field");
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  if (header_bytes > bytes.size() - sizeof header_bytes) return malformed("header is cut off");
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + sizeof header_bytes;
  const json header = json::parse(text, text + header_bytes, nullptr, false);
  if (!header.is_object()) return malformed("header is not a JSON object");
  const std::span<const std::byte> data = bytes.subspan(sizeof header_bytes + header_bytes);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto dtype = entry.find("dtype"), shape = entry.find("shape");
    const auto offsets = entry.find("data_offsets");
    if (dtype == entry.end() || shape == entry.end() || offsets == entry.end() ||
        !dtype->is_string() || !shape->is_array() || !offsets->is_array() || offsets->size() != 2) {
      return malformed("tensor " + name + " is not described");
    }
    SourceTensor tensor;
    tensor.name = name;
    tensor.width = width_of(dtype->get_ref<const std::string&>());
    if (tensor.width == 0) {
      return Status(Code::kUnsupported, "the verification does not know the dtype of " + name);
    }
    for (size_t d = 0; d < shape->size(); ++d) {
      const auto& extent = (*shape)[d];
      if (!extent.is_number_unsigned()) return malformed("tensor " + name + " has a wrong shape");
      uint64_t& into = d == 0 ? tensor.rows : tensor.columns;
      if (__builtin_mul_overflow(into, extent.get<uint64_t>(), &into)) {
        return malformed("tensor " + name + " is too large");
      }
    }
    const uint64_t begin = (*offsets)[0].is_number_unsigned() ? (*offsets)[0].get<uint64_t>() : 1;
    const uint64_t end = (*offsets)[1].is_number_unsigned() ? (*offsets)[1].get<uint64_t>() : 0;
    uint64_t size = 0;
    if (__builtin_mul_overflow(tensor.rows, tensor.columns, &size) ||
        __builtin_mul_overflow(size, uint64_t{tensor.width}, &size) || begin > end ||
        end > data.size() || end - begin != size) {
      return malformed("tensor " + name + " does not fit its place");
    }
    tensor.data = data.data() + begin;
    if (!tensors_.emplace(name, std::move(tensor)).second) {
      return malformed("tensor " + name + " is there twice");
    }
  }
  files_.push_back(std::move(file));
  return {};
}

Result<SourceModel> SourceModel::open(const std::filesystem::path& folder) {
  SourceModel model;
  WB_ASSIGN_OR_RETURN(model.config_, read_config(folder));
  if (std::filesystem::exists(folder / "model.safetensors")) {
    WB_RETURN_IF_ERROR(model.add_file(folder / "model.safetensors"));
    return model;
  }
  WB_ASSIGN_OR_RETURN(const json index, read_json(folder / "model.safetensors.index.json"));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    return Status(Code::kBadData, "the checkpoint's index has no weight_map");
  }
  std::map<std::string, bool> names;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) return Status(Code::kBadData, "the weight_map is not of file names");
    names[std::filesystem::path(file.get<std::string>()).filename().string()] = true;
  }
  for (const auto& [name, unused] : names) WB_RETURN_IF_ERROR(model.add_file(folder / name));
  return model;
}

}  // namespace wb::cli
