// The few numbers of a Hugging Face config.json that sharding rules depend on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"

namespace wb {

// Zero: the configuration does not have it.
struct ModelConfig {
  std::string family;  // model_type: bert, llama, qwen2, qwen3, qwen3_moe, deepseek_v3, kimi_k2
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;  // zero with multi-head latent attention, which has three
  int64_t intermediate = 0;
  int64_t vocab = 0;
  bool tied_embeddings = false;
  int64_t experts = 0;
  int64_t moe_intermediate = 0;
  int64_t shared_experts = 0;
  int64_t first_dense_layers = 0;  // of a model with experts: the first layers have none
  int64_t q_lora_rank = 0;         // multi-head latent attention
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  int64_t mtp_layers = 0;  // multi-token prediction: layers `layers`, `layers` + 1, ...
};

// What config.json does not say is what the family's own configuration class (transformers) says.
// kUnsupported names the family when rules do not know it, or what of it they cannot express;
// kBadData for what is not a configuration: a member that is there twice, a number that is not an
// integer or not plausible, heads that do not divide.
Result<ModelConfig> parse_model_config(std::string_view json);
Result<ModelConfig> read_model_config(const std::filesystem::path& folder);

}  // namespace wb
