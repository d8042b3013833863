#include "layout/layout_file.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "base/output_file.h"
#include "layout/input_file.h"
#include "layout/json_events.h"

namespace wb {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

// Refuses what the walker refuses: deep nesting, zero bytes, what is no JSON.
class Nothing : public JsonListener {
  Status on_value(const Value&) override { return Status(); }
};

Status bad(const std::string& what) { return Status(Code::kBadData, "layout file: " + what); }

// Readers of single values; nothing where a value is missing or of another kind.
std::optional<int64_t> integer(const json& from, size_t index) {
  if (!from.is_array() || index >= from.size() || !from[index].is_number_integer()) return {};
  const json& value = from[index];
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return {};
  return value.get<int64_t>();
}
std::optional<uint32_t> small(const json& from, size_t index) {
  const auto value = integer(from, index);
  if (!value || *value < 0 || *value > UINT32_MAX) return {};
  return static_cast<uint32_t>(*value);
}
const std::string* text(const json& from, size_t index) {
  if (!from.is_array() || index >= from.size()) return nullptr;
  return from[index].get_ptr<const std::string*>();
}

Result<TensorInfo> read_tensor(const json& from, const char* what) {
  const std::string* name = text(from, 0);
  const std::string* dtype = text(from, 1);
  if (name == nullptr || dtype == nullptr || from.size() < 3 || !from[2].is_array() ||
      from[2].size() > kMaxRank) {
    return bad(std::string("a malformed ") + what);
  }
  const DTypeInfo* type = find_dtype(*dtype);
  if (type == nullptr) return bad("unknown dtype of " + *name);
  TensorInfo info{*name, type->dtype, {}};
  for (size_t d = 0; d < from[2].size(); ++d) {
    const auto extent = integer(from[2], d);
    if (!extent || *extent < 0) return bad("a malformed shape of " + *name);
    info.shape.push_back(*extent);
  }
  return info;
}

Result<Piece> read_piece(const json& from) {
  const auto tensor = small(from, 0), buffer = small(from, 1);
  const auto offset = integer(from, 2);
  if (!tensor || !buffer || !offset || from.size() != 4 || !from[3].is_array() ||
      from[3].size() > kMaxRank) {
    return bad("a malformed piece");
  }
  Piece piece;
  piece.tensor = *tensor;
  piece.buffer = *buffer;
  piece.offset = *offset;
  std::array<Progression, kMaxRank> dims;
  for (size_t d = 0; d < from[3].size(); ++d) {
    const json& dim = from[3][d];
    const auto start = integer(dim, 0), count = integer(dim, 1), step = integer(dim, 2),
               stride = integer(dim, 3);
    if (!start || !count || !step || !stride) return bad("a malformed box");
    dims[d] = {*start, *count, *step};
    piece.stride[d] = *stride;
  }
  auto box = Box::make(std::span(dims).first(from[3].size()));
  if (!box.ok()) return bad(box.status().message());
  piece.box = *box;
  return piece;
}

Result<Extra> read_extra(const json& from) {
  const auto buffer = small(from, 0), kind = small(from, 3);
  const auto offset = integer(from, 1), bytes = integer(from, 2);
  const std::string* name = text(from, 4);
  if (!buffer || !kind || *kind > UINT8_MAX || !offset || *offset < 0 || !bytes || *bytes < 0 ||
      name == nullptr) {
    return bad("a malformed extra");
  }
  return Extra{*buffer, static_cast<uint64_t>(*offset), static_cast<uint64_t>(*bytes),
               static_cast<ExtraKind>(*kind), *name};
}

json shape_of(const std::vector<int64_t>& shape) { return json(shape); }

std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }

}  // namespace

std::string layout_text(const TensorTable& table, const WorkerLayout& layout) {
  json out;
  out["weightbridge_layout"] = kVersion;
  out["digest"] = layout_digest(table, layout).hex();
  json& tensors = out["tensors"] = json::array();
  for (const TensorInfo& info : table.tensors()) {
    tensors.push_back({info.name, dtype_name(info.dtype), shape_of(info.shape)});
  }
  json& buffers = out["buffers"] = json::array();
  for (const BufferInfo& info : layout.buffers) {
    buffers.push_back({info.name, dtype_name(info.dtype), shape_of(info.shape), info.bytes});
  }
  json& pieces = out["pieces"] = json::array();
  for (const Piece& piece : layout.pieces) {
    json dims = json::array();
    for (int d = 0; d < piece.box.rank(); ++d) {
      const Progression& p = piece.box.dim(d);
      dims.push_back({p.start, p.count, p.step, piece.stride[static_cast<size_t>(d)]});
    }
    pieces.push_back({piece.tensor, piece.buffer, piece.offset, std::move(dims)});
  }
  json& extras = out["extras"] = json::array();
  for (const Extra& extra : layout.extras) {
    extras.push_back(
        {extra.buffer, extra.offset, extra.bytes, static_cast<int>(extra.kind), extra.name});
  }
  return out.dump() + "\n";
}

Result<LayoutFile> parse_layout(std::string_view content) {
  WB_RETURN_IF_ERROR(Nothing().walk(content));
  const json all = json::parse(content, nullptr, false);
  const auto version = all.is_object() ? all.find("weightbridge_layout") : all.end();
  if (version == all.end()) return bad("it is none: it has no member weightbridge_layout");
  if (!version->is_number_integer() || *version != kVersion) {
    return bad("version " + version->dump() + " is not known, " + std::to_string(kVersion) + " is");
  }
  for (const char* member : {"tensors", "buffers", "pieces", "extras"}) {
    const auto found = all.find(member);
    if (found == all.end() || !found->is_array()) return bad(std::string("no list ") + member);
  }
  std::vector<TensorInfo> tensors;
  for (const json& one : all["tensors"]) {
    WB_ASSIGN_OR_RETURN(TensorInfo info, read_tensor(one, "tensor"));
    tensors.push_back(std::move(info));
  }
  const size_t count = tensors.size();
  auto table = TensorTable::make(std::move(tensors));
  if (!table.ok()) return bad(table.status().message());
  LayoutFile file{std::move(*table), {}};
  for (size_t i = 0; i < count; ++i) {
    // Pieces name tensors by index, so the order must be the table's.
    if (*text(all["tensors"][i], 0) != file.table[static_cast<uint32_t>(i)].name) {
      return bad("its tensors are not in the order of their names");
    }
  }
  for (const json& one : all["buffers"]) {
    WB_ASSIGN_OR_RETURN(TensorInfo info, read_tensor(one, "buffer"));
    const auto bytes = integer(one, 3);
    if (!bytes || *bytes < 0) return bad("malformed bytes of buffer " + info.name);
    file.layout.buffers.push_back(
        {std::move(info.name), info.dtype, std::move(info.shape), static_cast<uint64_t>(*bytes)});
  }
  for (const json& one : all["pieces"]) {
    WB_ASSIGN_OR_RETURN(const Piece piece, read_piece(one));
    file.layout.pieces.push_back(piece);
  }
  for (const json& one : all["extras"]) {
    WB_ASSIGN_OR_RETURN(Extra extra, read_extra(one));
    file.layout.extras.push_back(std::move(extra));
  }
  const Status checked = check_layout(file.table, file.layout, LayoutRole::kSource);
  if (!checked.ok()) return bad(checked.message());
  const auto digest = all.find("digest");
  const bool same = digest != all.end() && digest->is_string() &&
                    *digest == layout_digest(file.table, file.layout).hex();
  if (!same) return bad("its digest is not that of its content: it was changed");
  return file;
}

Status save_layout(const std::filesystem::path& path, const TensorTable& table,
                   const WorkerLayout& layout) {
  return write_output(path, layout_text(table, layout));
}

Result<LayoutFile> load_layout(const std::filesystem::path& path) {
  WB_ASSIGN_OR_RETURN(const InputFile file, InputFile::open(path));
  WB_ASSIGN_OR_RETURN(const std::string content, file.read_all(kMaxLayoutFile));
  auto parsed = parse_layout(content);
  if (!parsed.ok()) return Status(parsed.status()).prefixed(path.string() + ": ");
  return parsed;
}

}  // namespace wb
