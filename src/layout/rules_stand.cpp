#include "layout/rules_stand.h"

#include <algorithm>

namespace wb {
namespace {

Status refused(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }

std::string in_parentheses(int64_t value) { return "(" + std::to_string(value) + ")"; }

// [first, first + count) of `total` things divided as evenly as possible, the first parts one more.
struct Range {
  int64_t first = 0;
  int64_t count = 0;
};
Range even_part(int64_t total, int64_t parts, int64_t index) {
  const int64_t base = total / parts;
  const int64_t more = total % parts;
  return {index * base + std::min(index, more), base + (index < more ? 1 : 0)};
}

bool has_kv_heads(const ModelConfig& config) { return config.kv_lora_rank == 0; }

// ---- Megatron ----

Status megatron_refuses(const Spec& spec, const ModelConfig& config) {
  if (config.heads % spec.tp != 0) {
    return refused("Megatron: num_attention_heads " + in_parentheses(config.heads) +
                   " must be a multiple of tensor_model_parallel_size " + in_parentheses(spec.tp) +
                   ".");
  }
  if (has_kv_heads(config) && config.kv_heads % spec.tp != 0 && spec.tp % config.kv_heads != 0) {
    return refused("Megatron: num_query_groups " + in_parentheses(config.kv_heads) +
                   " must be a multiple or divisor of tensor_model_parallel_size " +
                   in_parentheses(spec.tp) + ".");
  }
  const int64_t ep = spec.ep == 0 ? 1 : spec.ep;
  if (config.experts % ep != 0) {
    return refused("Megatron: num_moe_experts " + in_parentheses(config.experts) +
                   " must be divisible by expert_model_parallel_size " + in_parentheses(ep));
  }
  if (ep > 1 && config.experts == 0) {
    return refused("Megatron: expert parallelism (ep = " + std::to_string(ep) +
                   ") needs a model with experts");
  }
  const int64_t chunks = int64_t{spec.pp} * spec.vpp;
  if (spec.layers.empty() && config.layers < chunks) {
    return refused("Megatron: " + std::to_string(config.layers) + " layers do not fill " +
                   std::to_string(chunks) + " pipeline chunks");
  }
  int64_t listed = 0;
  for (uint32_t count : spec.layers) listed += count;
  if (!spec.layers.empty() && listed != config.layers) {
    return refused("layers: the numbers add up to " + std::to_string(listed) + "; the model has " +
                   std::to_string(config.layers) + " layers");
  }
  return Status();
}

Range megatron_chunk(const Spec& spec, const ModelConfig& config, int64_t chunk) {
  if (spec.layers.empty()) return even_part(config.layers, int64_t{spec.pp} * spec.vpp, chunk);
  Range range;
  for (int64_t c = 0; c < chunk; ++c) range.first += spec.layers[static_cast<size_t>(c)];
  range.count = spec.layers[static_cast<size_t>(chunk)];
  return range;
}

Result<Stand> megatron_stand(const Spec& spec, const ModelConfig& config, int64_t mtp_layers,
                             uint32_t rank) {
  WB_RETURN_IF_ERROR(megatron_refuses(spec, config));
  Stand stand;
  const int64_t stage_ranks = int64_t{spec.tp} * spec.cp * spec.dp;
  const int64_t inside = rank % stage_ranks;
  const int64_t stage = rank / stage_ranks;
  stand.tp = {spec.tp, inside % spec.tp};
  const int64_t etp = spec.etp == 0 ? spec.tp : spec.etp;
  const int64_t ep = spec.ep == 0 ? 1 : spec.ep;
  stand.etp = {etp, inside % etp};
  stand.expert_count = config.experts / ep;
  stand.expert_first = inside / etp % ep * stand.expert_count;

  const auto prefix = [&](int64_t v) {
    return spec.vpp == 1 ? std::string() : "vp_stages." + std::to_string(v) + ".";
  };
  for (int64_t v = 0; v < spec.vpp; ++v) {
    const Range chunk = megatron_chunk(spec, config, v * spec.pp + stage);
    for (int64_t i = 0; i < chunk.count; ++i) {
      stand.layers.push_back({chunk.first + i, i, prefix(v), false});
    }
  }
  stand.first = stage == 0;
  stand.last = stage == int64_t{spec.pp} - 1;
  stand.first_prefix = prefix(0);
  stand.last_prefix = prefix(int64_t{spec.vpp} - 1);
  for (int64_t j = 0; stand.last && j < mtp_layers; ++j) {
    stand.layers.push_back({config.layers + j, j, stand.last_prefix, true});
  }
  return stand;
}

// ---- vLLM ----

Status vllm_refuses(const Spec& spec, const ModelConfig& config) {
  if (config.heads % spec.tp != 0) {
    return refused("vLLM: Total number of attention heads " + in_parentheses(config.heads) +
                   " must be divisible by tensor parallel size " + in_parentheses(spec.tp) + ".");
  }
  if (has_kv_heads(config)) {
    const bool replicate = spec.tp >= config.kv_heads;
    const int64_t larger = replicate ? spec.tp : config.kv_heads;
    const int64_t smaller = replicate ? config.kv_heads : spec.tp;
    if (larger % smaller != 0) {
      return refused("vLLM: " + std::to_string(larger) + " is not divisible by " +
                     std::to_string(smaller) + " (tensor parallel size " + in_parentheses(spec.tp) +
                     " must divide or be divided by the KV heads " +
                     in_parentheses(config.kv_heads) + ")");
    }
  }
  if (spec.pp > 1 && config.family == "bert") {
    return refused("vLLM: Pipeline parallelism is not supported for this model (bert).");
  }
  if (spec.ep != 0 && config.experts == 0) {
    return refused(
        "vLLM: Number of experts in the model must be greater than 0 when expert "
        "parallelism is enabled.");
  }
  if (spec.ep != 0 && config.experts < spec.ep) {
    return refused("vLLM: " + std::to_string(config.experts) +
                   " experts do not fill ep = " + std::to_string(spec.ep) + " ranks");
  }
  return Status();
}

// get_pp_indices: what does not divide goes to the stages before the last, the last of them first.
Range vllm_stage(int64_t layers, int64_t pp, int64_t stage) {
  const int64_t base = layers / pp;
  const int64_t more = layers % pp;
  const int64_t from = pp - 1 - more;  // the stages [from, pp - 1) have one more
  const int64_t before = std::clamp(stage - from, int64_t{0}, more);
  return {stage * base + before, base + (stage >= from && stage < pp - 1 ? 1 : 0)};
}

Result<Stand> vllm_stand(const Spec& spec, const ModelConfig& config, uint32_t rank) {
  WB_RETURN_IF_ERROR(vllm_refuses(spec, config));
  Stand stand;
  stand.tp = {spec.tp, rank % spec.tp};
  const int64_t dp_rank = rank / spec.tp % spec.dp;
  const int64_t stage = rank / spec.tp / spec.dp % spec.pp;
  // Experts see tp and dp as one group.
  const RankGroup flat = {int64_t{spec.tp} * spec.dp, dp_rank * spec.tp + stand.tp.index};
  if (spec.ep == 0) {
    stand.etp = flat;
    stand.expert_count = config.experts;
  } else {
    const Range experts = even_part(config.experts, flat.parts, flat.index);
    stand.expert_first = experts.first;
    stand.expert_count = experts.count;
  }
  const Range layers = vllm_stage(config.layers, spec.pp, stage);
  for (int64_t i = 0; i < layers.count; ++i) {
    stand.layers.push_back({layers.first + i, i, "", false});
  }
  stand.first = stage == 0;
  stand.last = stage == int64_t{spec.pp} - 1;
  return stand;
}

// ---- without pipeline stages ----

Stand whole_model(const ModelConfig& config, int64_t mtp_layers) {
  Stand stand;
  stand.first = true;
  stand.last = true;
  stand.expert_count = config.experts;
  for (int64_t i = 0; i < config.layers + mtp_layers; ++i) {
    stand.layers.push_back({i, i, "", i >= config.layers});
  }
  return stand;
}

}  // namespace

RankGroup Stand::group(CutGroup which) const {
  switch (which) {
    case CutGroup::kNone:
      return {};
    case CutGroup::kTp:
      return tp;
    case CutGroup::kEtp:
      return etp;
    case CutGroup::kShards:
      return shards;
  }
  return {};
}

Result<Stand> stand_of(const Spec& spec, const ModelConfig& config, int64_t mtp_layers,
                       uint32_t rank) {
  switch (spec.framework) {
    case Framework::kMegatron:
      return megatron_stand(spec, config, mtp_layers, rank);
    case Framework::kVllm:
      return vllm_stand(spec, config, rank);
    case Framework::kFsdp: {
      Stand stand = whole_model(config, mtp_layers);
      stand.shards = {spec.shards, rank % spec.shards};
      return stand;
    }
    case Framework::kReplicated:
      return whole_model(config, mtp_layers);
  }
  return Status(Code::kInternal, "a framework without a grid of ranks");
}

}  // namespace wb
