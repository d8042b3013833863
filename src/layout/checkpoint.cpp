// open_checkpoint: which files a checkpoint has, and one table out of their headers.
#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "layout/input_file.h"
#include "layout/json_events.h"
#include "layout/quote.h"
#include "layout/safetensors.h"

namespace wb {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

Result<SafetensorsHeader> read_header(const fs::path& path) {
  WB_ASSIGN_OR_RETURN(const InputFile file, InputFile::open(path));
  const auto parse = [&]() -> Result<SafetensorsHeader> {
    if (file.size() < sizeof(uint64_t)) {
      return Status(Code::kBadData, "truncated: it has " + std::to_string(file.size()) + " bytes");
    }
    WB_ASSIGN_OR_RETURN(const std::string length, file.read(0, sizeof(uint64_t)));
    WB_ASSIGN_OR_RETURN(const uint64_t bytes,
                        safetensors_header_bytes(std::as_bytes(std::span(length)), file.size()));
    WB_ASSIGN_OR_RETURN(const std::string header, file.read(0, static_cast<size_t>(bytes)));
    return parse_safetensors_header(std::as_bytes(std::span(header)), file.size());
  };
  auto header = parse();
  if (!header.ok()) return header.status().prefixed(path.string() + ": ");
  return header;
}

// The weight_map of an index: which file holds which tensor.
class IndexListener : public JsonListener {
 public:
  std::map<std::string, std::string> take() && { return std::move(map_); }
  bool found() const { return found_; }

 private:
  bool in_map() const { return key(1) == "weight_map"; }

  Status on_value(const Value& value) override {
    if (depth() == 0) {
      if (value.kind == Kind::kObject) return Status();
      return Status(Code::kBadData, "not a JSON object");
    }
    if (!in_map()) return Status();
    if (depth() == 1) {
      if (value.kind != Kind::kObject) return Status(Code::kBadData, "weight_map is not an object");
      if (std::exchange(found_, true)) return Status(Code::kBadData, "weight_map is there twice");
      return Status();
    }
    const std::string& tensor = key(2);
    const auto bad = [&](const std::string& what) {
      return Status(Code::kBadData, "tensor " + quote(tensor) + " " + what).with_tensor(tensor);
    };
    if (value.kind != Kind::kString) return bad("has no file name");
    // A name, not a path: nothing outside the folder can be named.
    if (value.text.empty() || value.text == "." || value.text == ".." ||
        value.text.find('/') != std::string_view::npos ||
        value.text.find('\0') != std::string_view::npos) {
      return bad("is said to be in " + quote(value.text) + ", which is not a file name");
    }
    if (!map_.emplace(tensor, value.text).second) return bad("is there twice");
    return Status();
  }

  std::map<std::string, std::string> map_;
  bool found_ = false;
};

struct Found {
  TensorInfo info;
  TensorFile place;
};

Result<Checkpoint> assemble(std::vector<fs::path> files, std::vector<Found> found) {
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.info.name < b.info.name; });
  Checkpoint checkpoint;
  std::vector<TensorInfo> tensors;
  for (size_t i = 0; i < found.size(); ++i) {
    if (i > 0 && tensors.back().name == found[i].info.name) {
      const std::string name = found[i].info.name;
      return Status(Code::kBadData, "tensor " + quote(name) + " is in " +
                                        files[found[i - 1].place.file].string() + " and in " +
                                        files[found[i].place.file].string())
          .with_tensor(name);
    }
    tensors.push_back(std::move(found[i].info));
    checkpoint.places.push_back(found[i].place);
  }
  auto table = TensorTable::make(std::move(tensors));
  if (!table.ok()) {
    // The words are a file's here, not the caller's.
    const Status status = table.status();
    if (status.code() != Code::kInvalidArgument) return status;
    return Status(Code::kBadData, status.message()).with_tensor(status.facts().tensor);
  }
  checkpoint.table = std::move(table).value();
  checkpoint.files = std::move(files);
  return checkpoint;
}

Status add_file(const fs::path& path, uint32_t file, std::vector<Found>* found) {
  WB_ASSIGN_OR_RETURN(SafetensorsHeader header, read_header(path));
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    header.places[i].file = file;
    found->push_back({std::move(header.tensors[i]), header.places[i]});
  }
  return Status();
}

Result<Checkpoint> open_single(const fs::path& path) {
  std::vector<Found> found;
  WB_RETURN_IF_ERROR(add_file(path, 0, &found));
  return assemble({path}, std::move(found));
}

Result<std::map<std::string, std::string>> read_index(const fs::path& path) {
  WB_ASSIGN_OR_RETURN(const InputFile file, InputFile::open(path));
  WB_ASSIGN_OR_RETURN(const std::string text, file.read_all(kMaxSafetensorsHeader));
  IndexListener listener;
  if (Status status = listener.walk(text); !status.ok()) {
    return std::move(status).prefixed(path.string() + ": ");
  }
  if (!listener.found()) return Status(Code::kBadData, path.string() + ": it has no weight_map");
  return std::move(listener).take();
}

// Each tensor is where the index says, and no file holds one that the index does not know.
Status check_index(const std::map<std::string, std::string>& index, const Checkpoint& checkpoint) {
  for (uint32_t i = 0; i < checkpoint.table.size(); ++i) {
    const std::string& name = checkpoint.table[i].name;
    const std::string file = checkpoint.files[checkpoint.places[i].file].filename().string();
    const auto said = index.find(name);
    if (said == index.end()) {
      return Status(Code::kBadData,
                    "tensor " + quote(name) + " is in " + quote(file) + " but not in the index")
          .with_tensor(name);
    }
    if (said->second != file) {
      return Status(Code::kBadData, "tensor " + quote(name) + " is in " + quote(file) +
                                        "; the index says " + quote(said->second))
          .with_tensor(name);
    }
  }
  for (const auto& [name, file] : index) {
    if (checkpoint.table.find(name).ok()) continue;
    return Status(Code::kBadData, "tensor " + quote(name) + " is not in " + quote(file) +
                                      ", where the index says it is")
        .with_tensor(name);
  }
  return Status();
}

Result<Checkpoint> open_sharded(const fs::path& folder) {
  const fs::path index_path = folder / kIndex;
  WB_ASSIGN_OR_RETURN(const auto index, read_index(index_path));
  std::vector<std::string> names;
  names.reserve(index.size());
  for (const auto& [tensor, file] : index) names.push_back(file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());

  std::vector<fs::path> files;
  std::vector<Found> found;
  for (const std::string& name : names) {
    files.push_back(folder / name);
    WB_RETURN_IF_ERROR(add_file(files.back(), static_cast<uint32_t>(files.size() - 1), &found));
  }
  WB_ASSIGN_OR_RETURN(Checkpoint checkpoint, assemble(std::move(files), std::move(found)));
  if (Status status = check_index(index, checkpoint); !status.ok()) {
    return std::move(status).prefixed(index_path.string() + ": ");
  }
  return checkpoint;
}

}  // namespace

Result<Checkpoint> open_checkpoint(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return error ? errno_status(error.value(), "looking at " + path.string())
                 : Status(Code::kNotFound, path.string() + " does not exist");
  }
  if (!fs::is_directory(status)) return open_single(path);
  // In the order in which transformers looks.
  if (fs::exists(path / kSingle, error)) return open_single(path / kSingle);
  if (fs::exists(path / kIndex, error)) return open_sharded(path);
  return Status(Code::kNotFound, path.string() + " has neither " + std::string(kSingle) + " nor " +
                                     std::string(kIndex));
}

}  // namespace wb
