#include "layout/rules_index.h"

#include <algorithm>
#include <array>

#include "layout/quote.h"

namespace wb {
namespace {

constexpr size_t kMaxDigits = 7;  // of a layer or expert number: both fit in 32 bits

uint64_t place(int64_t layer, int64_t expert) {
  return static_cast<uint64_t>(layer) << 32 | static_cast<uint64_t>(expert);
}

// "model.layers.3.mlp.experts.7.up_proj.weight" -> "model.layers.{}.mlp.experts.{}.up_proj.weight"
// with {3, 7}. A component that is not the canonical form of a number stays text.
struct ParsedName {
  std::string key;
  std::array<int64_t, 2> numbers{};
  size_t count = 0;
};

std::optional<int64_t> canonical_number(std::string_view word) {
  if (word.empty() || word.size() > kMaxDigits || (word.size() > 1 && word[0] == '0')) {
    return std::nullopt;
  }
  int64_t value = 0;
  for (char c : word) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

ParsedName parse_name(std::string_view name) {
  ParsedName out;
  out.key.reserve(name.size());
  while (true) {
    const size_t dot = name.find('.');
    const std::string_view word = name.substr(0, dot);
    const std::optional<int64_t> number = canonical_number(word);
    if (number && out.count < out.numbers.size()) {
      out.key += "{}";
      out.numbers[out.count++] = *number;
    } else {
      out.key += word;
    }
    if (dot == std::string_view::npos) return out;
    out.key += '.';
    name.remove_prefix(dot + 1);
  }
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (size_t d = 0; d < shape.size(); ++d) {
    out += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  }
  return out + "]";
}

Status mismatch(const std::string& tensor, const std::string& what) {
  return Status(Code::kMismatch, "tensor " + tensor + " " + what).with_tensor(tensor);
}

class Indexer {
 public:
  Indexer(const RuleBook& families, const ModelConfig& config, const TensorTable& table)
      : families_(families), config_(config), table_(table) {}

  Result<TableIndex> run() {
    WB_RETURN_IF_ERROR(choose_rules());
    for (uint32_t i = 0; i < table_.size(); ++i) WB_RETURN_IF_ERROR(add(i));
    WB_RETURN_IF_ERROR(check_layers());
    for (const IndexedTensors& tensors : index_.tensors) {
      WB_RETURN_IF_ERROR(check_complete(tensors));
    }
    return std::move(index_);
  }

 private:
  Status choose_rules() {
    for (const TensorRule& rule : families_.tensors) {
      if (!rule.condition.holds(config_)) continue;
      std::vector<int64_t> shape;
      for (const std::string& expression : rule.shape) {
        Result<int64_t> value =
            expression == "_" ? Result<int64_t>(-1) : evaluate(expression, config_);
        if (!value.ok()) return value.status();
        shape.push_back(*value);
      }
      by_key_[rule.key] = index_.tensors.size();
      index_.tensors.push_back({&rule, {}});
      shapes_.push_back(std::move(shape));
    }
    if (index_.tensors.empty()) {
      return Status(Code::kUnsupported,
                    "there are no sharding rules for model family " + quote(config_.family));
    }
    const auto& mtp = families_.mtp_families;
    mtp_ = std::find(mtp.begin(), mtp.end(), config_.family) != mtp.end();
    const auto& prefixed = families_.prefixed_families;
    if (std::find(prefixed.begin(), prefixed.end(), config_.family) != prefixed.end()) {
      prefix_ = families_.prefix;
    }
    return Status();
  }

  // The rule of a name and its place, or nothing.
  std::optional<std::pair<size_t, uint64_t>> resolve(const ParsedName& name) const {
    const int64_t layer = name.count > 0 ? name.numbers[0] : 0;
    const int64_t expert = name.count > 1 ? name.numbers[1] : 0;
    const bool beyond = name.count > 0 && layer >= config_.layers;
    if (beyond && !(mtp_ && layer < config_.layers + config_.mtp_layers)) return std::nullopt;
    auto found = beyond ? by_key_.find(name.key + "#mtp") : by_key_.end();
    if (found == by_key_.end()) found = by_key_.find(name.key);
    if (found == by_key_.end()) return std::nullopt;
    const TensorRule& rule = *index_.tensors[found->second].rule;
    if (rule.per_expert() && expert >= config_.experts) return std::nullopt;
    return std::pair(found->second, place(layer, expert));
  }

  Status add(uint32_t i) {
    const TensorInfo& tensor = table_[i];
    std::string_view bare = tensor.name;
    if (!prefix_.empty() && bare.starts_with(prefix_)) bare.remove_prefix(prefix_.size());
    const auto found = resolve(parse_name(bare));
    if (!found) {
      return mismatch(tensor.name, "is unknown to the rules of family " + config_.family +
                                       " with " + std::to_string(config_.layers) + " layers and " +
                                       std::to_string(config_.experts) + " experts");
    }
    const auto [rule_index, where] = *found;
    IndexedTensors& tensors = index_.tensors[rule_index];
    const TensorRule& rule = *tensors.rule;
    if (!tensors.at.emplace(where, i).second) {
      return mismatch(tensor.name, "is there a second time, as " + table_[tensors.at[where]].name);
    }
    if (rule.per_layer()) note_layer(rule, static_cast<int64_t>(where >> 32));
    return rule.held() ? check_shape(tensor, shapes_[rule_index]) : Status();
  }

  void note_layer(const TensorRule& rule, int64_t layer) {
    bool& experts = index_.layers[layer];
    experts = experts || rule.kind == LayerKind::kMoe;
  }

  Status check_shape(const TensorInfo& tensor, const std::vector<int64_t>& wanted) const {
    bool same = tensor.shape.size() == wanted.size();
    for (size_t d = 0; same && d < wanted.size(); ++d) {
      same = wanted[d] < 0 || wanted[d] == tensor.shape[d];
    }
    if (same) return Status();
    return mismatch(tensor.name, "has shape " + shape_text(tensor.shape) +
                                     "; the configuration gives " + shape_text(wanted));
  }

  // All layers of the configuration are there; the multi-token-prediction layers too, or none of
  // them, as in the many conversions that drop them.
  Status check_layers() {
    int64_t next = 0;
    for (const auto& [layer, experts] : index_.layers) {
      if (layer != next) break;
      const bool wanted = config_.experts > 0 && layer >= config_.first_dense_layers;
      if (experts != wanted) {
        return Status(Code::kMismatch,
                      "layer " + std::to_string(layer) + (experts ? " has" : " has no") +
                          " experts in the checkpoint; the configuration says " +
                          std::to_string(config_.experts) + " experts from layer " +
                          std::to_string(config_.first_dense_layers) + " on");
      }
      ++next;
    }
    const int64_t all = config_.layers + config_.mtp_layers;
    const bool gap = next != static_cast<int64_t>(index_.layers.size());
    if (gap || (next != config_.layers && next != all)) {
      return Status(Code::kMismatch,
                    "layer " + std::to_string(next) +
                        " has no tensors in the checkpoint; the configuration has " +
                        std::to_string(config_.layers) + " layers");
    }
    index_.mtp_layers = next - config_.layers;
    return Status();
  }

  bool expected(const TensorRule& rule, int64_t layer, bool experts) const {
    if (rule.mtp() && layer < config_.layers) return false;
    return rule.kind == LayerKind::kAny || (rule.kind == LayerKind::kMoe) == experts;
  }

  Status check_complete(const IndexedTensors& tensors) const {
    const TensorRule& rule = *tensors.rule;
    if (!rule.alias_of.empty()) return check_alias(tensors);
    if (rule.ignored || (rule.optional && tensors.at.empty())) return Status();
    if (!rule.per_layer()) return require(tensors, 0, 0);
    size_t wanted = 0;
    for (const auto& [layer, experts] : index_.layers) {
      if (!expected(rule, layer, experts)) continue;
      const int64_t count = rule.per_expert() ? config_.experts : 1;
      // Ends at the first expert that is missing: at most one step beyond what the table holds.
      for (int64_t expert = 0; expert < count; ++expert) {
        WB_RETURN_IF_ERROR(require(tensors, layer, expert));
        ++wanted;
      }
    }
    if (wanted == tensors.at.size()) return Status();
    for (const auto& [where, tensor] : tensors.at) {
      const auto layer = static_cast<int64_t>(where >> 32);
      if (!expected(rule, layer, index_.layers.at(layer))) {
        return mismatch(table_[tensor].name,
                        "does not belong to a layer " +
                            std::string(index_.layers.at(layer) ? "with" : "without") + " experts");
      }
    }
    return Status(Code::kInternal, "tensors of " + rule.name + " were counted wrongly");
  }

  // A second copy that could not be one is not left out in silence.
  Status check_alias(const IndexedTensors& tensors) const {
    const IndexedTensors* original = index_.find(tensors.rule->alias_of);
    for (const auto& [where, tensor] : tensors.at) {
      const auto twin = original == nullptr ? std::nullopt : original->find(0, 0);
      if (!twin || table_[*twin].shape != table_[tensor].shape ||
          table_[*twin].dtype != table_[tensor].dtype) {
        return mismatch(table_[tensor].name, "is not a copy of " + tensors.rule->alias_of);
      }
    }
    return Status();
  }

  Status require(const IndexedTensors& tensors, int64_t layer, int64_t expert) const {
    if (tensors.find(layer, expert)) return Status();
    const std::string name = numbered_name(tensors.rule->name, layer, expert);
    return mismatch(name, "is missing; a " + config_.family + " model with " +
                              std::to_string(config_.layers) + " layers has it");
  }

  const RuleBook& families_;
  const ModelConfig& config_;
  const TensorTable& table_;
  TableIndex index_;
  std::vector<std::vector<int64_t>> shapes_;  // parallel to index_.tensors; -1: any
  std::unordered_map<std::string, size_t> by_key_;
  std::string_view prefix_;
  bool mtp_ = false;
};

}  // namespace

std::optional<uint32_t> IndexedTensors::find(int64_t layer, int64_t expert) const {
  const auto found = at.find(place(rule->per_layer() ? layer : 0, rule->per_expert() ? expert : 0));
  if (found == at.end()) return std::nullopt;
  return found->second;
}

const IndexedTensors* TableIndex::find(std::string_view key) const {
  for (const IndexedTensors& candidate : tensors) {
    if (candidate.rule->key == key) return &candidate;
  }
  return nullptr;
}

std::string numbered_name(std::string_view pattern, int64_t layer, int64_t expert) {
  std::string out;
  for (size_t at = 0; at < pattern.size();) {
    const size_t close = pattern[at] == '{' ? pattern.find('}', at) : std::string_view::npos;
    if (close == std::string_view::npos) {
      out += pattern[at++];
      continue;
    }
    const bool is_expert = pattern.substr(at, close - at).find("expert") != std::string_view::npos;
    out += std::to_string(is_expert ? expert : layer);
    at = close + 1;
  }
  return out;
}

Result<TableIndex> index_table(const RuleBook& families, const ModelConfig& config,
                               const TensorTable& table) {
  return Indexer(families, config, table).run();
}

}  // namespace wb
