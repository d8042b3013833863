#include "layout/rules.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "layout/rules_builder.h"
#include "layout/rules_cuts.h"
#include "layout/rules_embedded.h"
#include "layout/rules_index.h"
#include "layout/rules_stand.h"
#include "layout/rules_text.h"

namespace wb {
namespace {

Result<RuleBook> embedded_book(std::string_view file) {
  return parse_rules(std::string(file) + ".rules", embedded_rules(file));
}

struct Books {
  Result<RuleBook> families = embedded_book("families");
  Result<RuleBook> megatron = embedded_book("megatron");
  Result<RuleBook> fsdp = embedded_book("fsdp");
  Result<RuleBook> fsdp_flat = embedded_book("fsdp_flat");
  Result<RuleBook> vllm = embedded_book("vllm");
  Result<RuleBook> replicated = embedded_book("replicated");

  const Result<RuleBook>& of(const Spec& spec) const {
    switch (spec.framework) {
      case Framework::kMegatron:
        return megatron;
      case Framework::kFsdp:
        return spec.flat ? fsdp_flat : fsdp;
      case Framework::kVllm:
        return vllm;
      case Framework::kReplicated:
        break;
    }
    return replicated;
  }
};

const Books& books() {
  static const Books all;
  return all;
}

// A rule that applies to the model, with what its sources are.
struct ActiveRule {
  const HoldRule* rule;
  std::vector<const IndexedTensors*> sources;  // for Selector::kNamed
};

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

class Interpreter {
 public:
  Interpreter(const RuleBook& book, const ModelConfig& config, const TensorTable& table,
              const TableIndex& index, const Stand& stand)
      : book_(book), config_(config), index_(index), stand_(stand), builder_(table) {}

  Result<WorkerLayout> run() {
    WB_RETURN_IF_ERROR(choose_rules());
    WB_RETURN_IF_ERROR(check_all_placed());
    if (stand_.first) WB_RETURN_IF_ERROR(hold_once(Where::kFirst, stand_.first_prefix));
    for (const LocalLayer& layer : stand_.layers) WB_RETURN_IF_ERROR(hold_layer(layer));
    if (stand_.last) WB_RETURN_IF_ERROR(hold_once(Where::kLast, stand_.last_prefix));
    if (stand_.last && !stand_.first) {
      WB_RETURN_IF_ERROR(hold_once(Where::kLastOnly, stand_.last_prefix));
    }
    for (const ActiveRule& active : rules_) {
      if (active.rule->where == Where::kEach) WB_RETURN_IF_ERROR(hold_each(*active.rule));
      if (active.rule->where == Where::kBlock) WB_RETURN_IF_ERROR(hold_blocks(*active.rule));
    }
    return builder_.take();
  }

 private:
  Status choose_rules() {
    for (const HoldRule& rule : book_.holds) {
      if (!rule.condition.holds(config_)) continue;
      ActiveRule active{&rule, {}};
      for (const std::string& key : rule.sources) {
        const IndexedTensors* tensors = index_.find(key);
        if (tensors != nullptr && tensors->rule->held()) active.sources.push_back(tensors);
      }
      // A model without any of the tensors (no shared experts, no output head of its own) does not
      // have the parameter.
      if (active.sources.empty() && !rule.sources.empty()) continue;
      if (active.sources.size() != rule.sources.size()) {
        return Status(Code::kInternal, "the rule of " + rule.own + " names tensors that family " +
                                           config_.family + " does not have");
      }
      for (const IndexedTensors* tensors : active.sources) named_.insert(tensors->rule);
      rules_.push_back(std::move(active));
    }
    return Status();
  }

  bool selects(Selector selector, const TensorRule& tensor) const {
    if (!tensor.held()) return false;
    switch (selector) {
      case Selector::kNamed:
        return false;
      case Selector::kAll:
        return true;
      case Selector::kBuffers:
        return tensor.buffer;
      case Selector::kParameters:
        return !tensor.buffer && !named_.contains(&tensor);
    }
    return false;
  }

  // Every tensor that the model has is in some rank's layout: a rule file that forgets one must
  // not pass.
  Status check_all_placed() const {
    for (const IndexedTensors& tensors : index_.tensors) {
      const TensorRule& tensor = *tensors.rule;
      if (!tensor.held() || tensors.at.empty() || (tensor.mtp() && book_.skip_mtp)) continue;
      const bool placed = std::any_of(rules_.begin(), rules_.end(), [&](const ActiveRule& active) {
        const auto& sources = active.sources;
        if (active.rule->where == Where::kLastOnly) return false;
        return selects(active.rule->selector, tensor) ||
               std::find(sources.begin(), sources.end(), &tensors) != sources.end();
      });
      if (!placed) {
        return Status(Code::kMismatch, "no rule places tensor " + tensor.name)
            .with_tensor(tensor.name);
      }
    }
    return Status();
  }

  Status hold_once(Where where, const std::string& prefix) {
    for (const ActiveRule& active : rules_) {
      if (active.rule->where == where) {
        WB_RETURN_IF_ERROR(hold(active, prefix + active.rule->own, LocalLayer{}, 0));
      }
    }
    return Status();
  }

  bool in_layer(Where where, const LocalLayer& layer) const {
    if (where == Where::kMtp) return layer.mtp;
    if (where == Where::kLayer) return true;
    const bool experts = index_.layers.at(layer.layer);
    return where == (experts ? Where::kMoe : Where::kDense);
  }

  Status hold_layer(const LocalLayer& layer) {
    for (const ActiveRule& active : rules_) {
      if (!in_layer(active.rule->where, layer)) continue;
      std::string own = active.rule->own;
      if (layer.mtp && !book_.layer_own.empty() && own.starts_with(book_.layer_own)) {
        own = book_.mtp_own + own.substr(book_.layer_own.size());
      }
      own = layer.prefix + own;
      own = replaced(std::move(own), "{layer}", std::to_string(layer.layer));
      own = replaced(std::move(own), "{local}", std::to_string(layer.local));
      if (own.find("{local_expert}") == std::string::npos) {
        WB_RETURN_IF_ERROR(hold(active, std::move(own), layer, 0));
        continue;
      }
      for (int64_t k = 0; k < stand_.expert_count; ++k) {
        WB_RETURN_IF_ERROR(hold(active, replaced(own, "{local_expert}", std::to_string(k)), layer,
                                stand_.expert_first + k));
      }
    }
    return Status();
  }

  static bool takes_all_experts(CutKind cut) {
    return cut == CutKind::kExpertsGated || cut == CutKind::kExpertsColumns ||
           cut == CutKind::kExpertsChunk;
  }

  // One parameter from named tensors; nothing where the checkpoint has none of them.
  Status hold(const ActiveRule& active, std::string own, const LocalLayer& layer, int64_t expert) {
    const bool all = takes_all_experts(active.rule->cut);
    const int64_t first = all ? stand_.expert_first : expert;
    const int64_t count = all ? stand_.expert_count : 1;
    std::vector<std::vector<uint32_t>> sources;
    const IndexedTensors* missing = nullptr;
    size_t found = 0;
    for (const IndexedTensors* tensors : active.sources) {
      std::vector<uint32_t>& indices = sources.emplace_back();
      for (int64_t e = first; e < first + count; ++e) {
        if (const auto index = tensors->find(layer.layer, e)) {
          indices.push_back(*index);
          ++found;
        } else {
          missing = tensors;
        }
      }
    }
    if (found == 0) return Status();
    if (missing != nullptr) {
      const std::string name = numbered_name(missing->rule->name, layer.layer, first);
      return Status(Code::kMismatch, "tensor " + name + " is missing: parameter " + own +
                                         " needs it beside the others")
          .with_tensor(name);
    }
    return cut(*active.rule, std::move(own), std::move(sources));
  }

  Status cut(const HoldRule& rule, std::string own, std::vector<std::vector<uint32_t>> sources) {
    const CutRequest request = {std::move(own), std::move(sources), stand_.group(rule.group),
                                rule.multiple};
    return apply_cut(rule.cut, request, config_, &builder_);
  }

  Status hold_each(const HoldRule& rule) {
    for (const IndexedTensors& tensors : index_.tensors) {
      if (!selects(rule.selector, *tensors.rule)) continue;
      std::vector<uint32_t> indices;
      for (const auto& [where, index] : tensors.at) indices.push_back(index);
      std::sort(indices.begin(), indices.end());
      for (uint32_t index : indices) {
        WB_RETURN_IF_ERROR(cut(rule, builder_.tensor(index).name, {{index}}));
      }
    }
    return Status();
  }

  // The tensors outside the layers, then each layer, in the order of the modules.
  Status hold_blocks(const HoldRule& rule) {
    WB_RETURN_IF_ERROR(hold_block(rule, nullptr));
    for (const LocalLayer& layer : stand_.layers) WB_RETURN_IF_ERROR(hold_block(rule, &layer));
    return Status();
  }

  Status hold_block(const HoldRule& rule, const LocalLayer* layer) {
    const int64_t number = layer == nullptr ? 0 : layer->layer;
    std::string block;
    std::vector<uint32_t> indices;
    const auto& all = index_.tensors;
    for (size_t i = 0; i < all.size();) {
      // Neighbouring rules of experts are one module list: all of one expert, then the next.
      size_t end = i + 1;
      const bool experts = all[i].rule->per_expert();
      while (experts && end < all.size() && all[end].rule->per_expert()) ++end;
      for (int64_t e = 0; e < (experts ? config_.experts : 1); ++e) {
        for (size_t k = i; k < end; ++k) {
          const TensorRule& tensor = *all[k].rule;
          if (!selects(rule.selector, tensor) || tensor.per_layer() != (layer != nullptr)) continue;
          if (const auto index = all[k].find(number, e)) {
            indices.push_back(*index);
            if (layer != nullptr && block.empty()) {
              const size_t close = tensor.name.find('}');
              block = numbered_name(tensor.name.substr(0, close + 1), number, 0) + ".";
            }
          }
        }
      }
      i = end;
    }
    if (indices.empty()) return Status();
    return cut(rule, replaced(rule.own, "{block}", block), {std::move(indices)});
  }

  const RuleBook& book_;
  const ModelConfig& config_;
  const TableIndex& index_;
  const Stand& stand_;
  LayoutBuilder builder_;
  std::vector<ActiveRule> rules_;
  std::unordered_set<const TensorRule*> named_;  // by a rule, so not left to @parameters
};

// What all ranks of one SPEC have in common.
struct Prepared {
  const RuleBook* framework;
  ModelConfig config;
  TableIndex index;

  static Result<Prepared> make(const Spec& spec, const ModelConfig& config,
                               const TensorTable& table) {
    WB_RETURN_IF_ERROR(spec.check());
    const Result<RuleBook>& families = books().families;
    if (!families.ok()) return families.status();
    const Result<RuleBook>& framework = books().of(spec);
    if (!framework.ok()) return framework.status();
    WB_ASSIGN_OR_RETURN(ModelConfig complete, completed(config));
    WB_ASSIGN_OR_RETURN(TableIndex index, index_table(*families, complete, table));
    return Prepared{&*framework, std::move(complete), std::move(index)};
  }

  Result<Stand> stand(const Spec& spec, uint32_t rank) const {
    return stand_of(spec, config, index.mtp_layers, rank);
  }
  Result<WorkerLayout> lay_out(const TensorTable& table, const Stand& stand) const {
    return Interpreter(*framework, config, table, index, stand).run();
  }
};

}  // namespace

Result<WorkerLayout> lay_out(const Spec& spec, const ModelConfig& config, const TensorTable& table,
                             uint32_t rank) {
  WB_RETURN_IF_ERROR(spec.check());
  if (rank >= spec.world()) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(rank) + " is not in " +
                                              spec.to_string() + ", which has ranks 0 to " +
                                              std::to_string(spec.world() - 1));
  }
  WB_ASSIGN_OR_RETURN(const Prepared prepared, Prepared::make(spec, config, table));
  WB_ASSIGN_OR_RETURN(const Stand stand, prepared.stand(spec, rank));
  return prepared.lay_out(table, stand);
}

Result<Side> lay_out_all(const Spec& spec, const ModelConfig& config, const TensorTable& table) {
  WB_ASSIGN_OR_RETURN(const Prepared prepared, Prepared::make(spec, config, table));
  SideBuilder builder;
  // Ranks that stand at the same place hold the same.
  std::map<Stand, SideMember> seen;
  for (uint32_t rank = 0; rank < spec.world(); ++rank) {
    WB_ASSIGN_OR_RETURN(Stand stand, prepared.stand(spec, rank));
    if (const auto known = seen.find(stand); known != seen.end()) {
      builder.repeat(known->second);
      continue;
    }
    WB_ASSIGN_OR_RETURN(WorkerLayout layout, prepared.lay_out(table, stand));
    seen.emplace(std::move(stand), builder.add(std::move(layout)));
  }
  return builder.take();
}

}  // namespace wb
