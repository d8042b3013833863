#include "layout/open_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "layout/input_file.h"
#include "layout/json_events.h"
#include "layout/quote.h"
#include "layout/safetensors.h"

namespace wb {
namespace {

constexpr uint64_t kMaxTableBytes = uint64_t{256} << 20;

// Collects the tensors, and checks that the file has the two members and nothing else. The
// configuration has its own parser.
class TableListener : public JsonListener {
 public:
  bool has_config = false;
  bool has_tensors = false;
  std::vector<TensorInfo> tensors;

 private:
  bool in_tensors() const { return depth() > 0 && key(1) == "tensors"; }

  Status bad(const std::string& what) const {
    const std::string& tensor = key(2);
    return Status(Code::kBadData, "tensor " + quote(tensor) + " " + what).with_tensor(tensor);
  }

  Status on_value(const Value& value) override {
    const bool object = value.kind == Kind::kObject;
    if (depth() == 0) return object ? Status() : Status(Code::kBadData, "not a JSON object");
    if (depth() == 1) return on_member(object);
    if (!in_tensors()) return on_config_member();
    if (depth() == 2) {
      if (!object) return bad("is not described by an object");
      tensor_ = {key(2), DType::kU8, {}};
      has_dtype_ = has_shape_ = false;
      return Status();
    }
    if (depth() == 3) return on_field(value);
    if (depth() > 4 || value.kind != Kind::kUnsigned || value.number > INT64_MAX) {
      return bad("has a shape that is not a list of sizes");
    }
    if (tensor_.shape.size() == kMaxRank) {
      return bad("has more than " + std::to_string(kMaxRank) + " dimensions");
    }
    tensor_.shape.push_back(static_cast<int64_t>(value.number));
    return Status();
  }

  Status on_member(bool object) {
    bool* seen = key(1) == "config" ? &has_config : key(1) == "tensors" ? &has_tensors : nullptr;
    if (seen == nullptr) {
      return Status(Code::kBadData,
                    "unknown member " + quote(key(1)) + "; there are config and tensors");
    }
    if (std::exchange(*seen, true)) {
      return Status(Code::kBadData, quote(key(1)) + " is there twice");
    }
    return object ? Status() : Status(Code::kBadData, quote(key(1)) + " is not an object");
  }

  // The tree from which the configuration is read keeps one of two equal members: refused here.
  Status on_config_member() {
    if (depth() != 2 || config_members_.insert(key(2)).second) return Status();
    return Status(Code::kBadData, "config: " + quote(key(2)) + " is there twice");
  }

  Status on_field(const Value& value) {
    if (key(3) == "dtype") {
      const DTypeInfo* info = value.kind == Kind::kString ? find_dtype(value.text) : nullptr;
      if (info == nullptr) return bad("has a dtype that is not one of safetensors'");
      if (std::exchange(has_dtype_, true)) return bad("has a dtype twice");
      tensor_.dtype = info->dtype;
      return Status();
    }
    if (key(3) != "shape") return bad("has an unknown member " + quote(key(3)));
    if (value.kind != Kind::kArray) return bad("has a shape that is not a list of sizes");
    if (std::exchange(has_shape_, true)) return bad("has a shape twice");
    return Status();
  }

  Status on_end() override {
    if (depth() != 2 || !in_tensors()) return Status();
    if (!has_dtype_ || !has_shape_) return bad("has no dtype or no shape");
    tensors.push_back(std::move(tensor_));
    return Status();
  }

  TensorInfo tensor_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  std::set<std::string> config_members_;
};

// The text of the member `config` of a document that the listener has accepted.
std::string config_text(std::string_view json) {
  const auto keep = [](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    return !(depth == 1 && event == nlohmann::json::parse_event_t::key && parsed == "tensors");
  };
  const auto tree = nlohmann::json::parse(json, keep, /*allow_exceptions=*/false);
  const auto config = tree.is_object() ? tree.find("config") : tree.end();
  if (!tree.is_object() || config == tree.end()) return {};
  return config->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Result<Model> parse_model_table(std::string_view json) {
  TableListener listener;
  WB_RETURN_IF_ERROR(listener.walk(json));
  if (!listener.has_config || !listener.has_tensors) {
    return Status(Code::kBadData,
                  listener.has_config ? "there is no member tensors" : "there is no member config");
  }
  Model model;
  auto config = parse_model_config(config_text(json));
  if (!config.ok()) return config.status().prefixed("config: ");
  model.config = std::move(config).value();
  auto table = TensorTable::make(std::move(listener.tensors));
  if (!table.ok()) {
    // The words are a file's here, not the caller's.
    const Status status = table.status();
    if (status.code() != Code::kInvalidArgument) return status;
    return Status(Code::kBadData, status.message()).with_tensor(status.facts().tensor);
  }
  model.table = std::move(table).value();
  return model;
}

Result<Model> open_model(const std::string& name) {
  namespace fs = std::filesystem;
  const auto names = builtin_model_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return builtin_model(name);
  const fs::path path(name);
  std::error_code error;
  if (!fs::exists(path, error)) {
    std::string known;
    for (const std::string_view each : names)
      known += (known.empty() ? "" : ", ") + std::string(each);
    return Status(Code::kNotFound, quote(name) +
                                       " is neither a file or folder nor a built-in model; "
                                       "those are " +
                                       known);
  }
  if (!fs::is_directory(path, error) && path.extension() == ".json") {
    WB_ASSIGN_OR_RETURN(const InputFile file, InputFile::open(path));
    WB_ASSIGN_OR_RETURN(const std::string text, file.read_all(kMaxTableBytes));
    auto model = parse_model_table(text);
    if (!model.ok()) return model.status().prefixed(path.string() + ": ");
    return model;
  }
  Model model;
  WB_ASSIGN_OR_RETURN(model.config, read_model_config(path));
  WB_ASSIGN_OR_RETURN(Checkpoint checkpoint, open_checkpoint(path));
  model.table = std::move(checkpoint.table);
  return model;
}

}  // namespace wb
