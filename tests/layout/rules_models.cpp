#include "rules_models.h"

namespace wb::testing {
namespace {

class Checkpoint {
 public:
  void add(const std::string& name, std::vector<int64_t> shape, DType dtype = DType::kBF16) {
    tensors.push_back({name, dtype, std::move(shape)});
  }
  void mlp(const std::string& at, int64_t hidden, int64_t ffn) {
    add(at + "gate_proj.weight", {ffn, hidden});
    add(at + "up_proj.weight", {ffn, hidden});
    add(at + "down_proj.weight", {hidden, ffn});
  }
  void linear(const std::string& at, int64_t rows, int64_t columns, DType dtype) {
    add(at + ".weight", {rows, columns}, dtype);
    add(at + ".bias", {rows}, dtype);
  }
  void norm(const std::string& at, int64_t size, DType dtype) {
    add(at + ".weight", {size}, dtype);
    add(at + ".bias", {size}, dtype);
  }
  std::vector<TensorInfo> tensors;
};

void attention(const ModelConfig& c, bool biases, const std::string& at, Checkpoint* out) {
  const int64_t q = c.heads * c.head_dim;
  const int64_t kv = c.kv_heads * c.head_dim;
  out->add(at + "q_proj.weight", {q, c.hidden});
  out->add(at + "k_proj.weight", {kv, c.hidden});
  out->add(at + "v_proj.weight", {kv, c.hidden});
  out->add(at + "o_proj.weight", {c.hidden, q});
  if (biases || c.family == "qwen2") {
    out->add(at + "q_proj.bias", {q});
    out->add(at + "k_proj.bias", {kv});
    out->add(at + "v_proj.bias", {kv});
  }
  if (biases && c.family != "qwen2") out->add(at + "o_proj.bias", {c.hidden});
  if (c.family.starts_with("qwen3")) {
    out->add(at + "q_norm.weight", {c.head_dim});
    out->add(at + "k_norm.weight", {c.head_dim});
  }
}

void latent_attention(const ModelConfig& c, const std::string& at, Checkpoint* out) {
  const int64_t q = c.heads * (c.qk_nope_head_dim + c.qk_rope_head_dim);
  if (c.q_lora_rank == 0) {
    out->add(at + "q_proj.weight", {q, c.hidden});
  } else {
    out->add(at + "q_a_proj.weight", {c.q_lora_rank, c.hidden});
    out->add(at + "q_a_layernorm.weight", {c.q_lora_rank});
    out->add(at + "q_b_proj.weight", {q, c.q_lora_rank});
  }
  out->add(at + "kv_a_proj_with_mqa.weight", {c.kv_lora_rank + c.qk_rope_head_dim, c.hidden});
  out->add(at + "kv_a_layernorm.weight", {c.kv_lora_rank});
  out->add(at + "kv_b_proj.weight",
           {c.heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank});
  out->add(at + "o_proj.weight", {c.hidden, c.heads * c.v_head_dim});
}

void experts(const ModelConfig& c, const std::string& at, Checkpoint* out) {
  out->add(at + "gate.weight", {c.experts, c.hidden});
  for (int64_t e = 0; e < c.experts; ++e) {
    out->mlp(at + "experts." + std::to_string(e) + ".", c.hidden, c.moe_intermediate);
  }
  if (c.kv_lora_rank > 0) {
    out->add(at + "gate.e_score_correction_bias", {c.experts}, DType::kF32);
  }
  if (c.shared_experts > 0) {
    out->mlp(at + "shared_experts.", c.hidden, c.moe_intermediate * c.shared_experts);
  }
}

void decoder(const ModelConfig& c, bool biases, Checkpoint* out) {
  out->add("model.embed_tokens.weight", {c.vocab, c.hidden});
  out->add("model.norm.weight", {c.hidden});
  if (!c.tied_embeddings) out->add("lm_head.weight", {c.vocab, c.hidden});
  for (int64_t i = 0; i < c.layers + c.mtp_layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".";
    if (c.kv_lora_rank > 0) {
      latent_attention(c, at + "self_attn.", out);
    } else {
      attention(c, biases, at + "self_attn.", out);
    }
    out->add(at + "input_layernorm.weight", {c.hidden});
    out->add(at + "post_attention_layernorm.weight", {c.hidden});
    if (c.experts > 0 && i >= c.first_dense_layers) {
      experts(c, at + "mlp.", out);
    } else {
      out->mlp(at + "mlp.", c.hidden, c.intermediate);
    }
    if (i < c.layers) continue;
    out->add(at + "embed_tokens.weight", {c.vocab, c.hidden});
    out->add(at + "shared_head.head.weight", {c.vocab, c.hidden});
    out->add(at + "shared_head.norm.weight", {c.hidden});
    out->add(at + "enorm.weight", {c.hidden});
    out->add(at + "hnorm.weight", {c.hidden});
    out->add(at + "eh_proj.weight", {c.hidden, 2 * c.hidden});
  }
}

void bert(const ModelConfig& c, Checkpoint* out) {
  constexpr DType kType = DType::kF32;
  constexpr int64_t kPositions = 512;
  out->add("embeddings.position_ids", {1, kPositions}, DType::kI64);
  out->add("embeddings.word_embeddings.weight", {c.vocab, c.hidden}, kType);
  out->add("embeddings.position_embeddings.weight", {kPositions, c.hidden}, kType);
  out->add("embeddings.token_type_embeddings.weight", {2, c.hidden}, kType);
  out->norm("embeddings.LayerNorm", c.hidden, kType);
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string at = "encoder.layer." + std::to_string(i) + ".";
    for (const char* part : {"query", "key", "value"}) {
      out->linear(at + "attention.self." + part, c.hidden, c.hidden, kType);
    }
    out->linear(at + "attention.output.dense", c.hidden, c.hidden, kType);
    out->norm(at + "attention.output.LayerNorm", c.hidden, kType);
    out->linear(at + "intermediate.dense", c.intermediate, c.hidden, kType);
    out->linear(at + "output.dense", c.hidden, c.intermediate, kType);
    out->norm(at + "output.LayerNorm", c.hidden, kType);
  }
  out->linear("pooler.dense", c.hidden, c.hidden, kType);
}

}  // namespace

std::vector<TensorInfo> checkpoint_tensors(const ModelConfig& config, bool biases) {
  Checkpoint out;
  if (config.family == "bert") {
    bert(config, &out);
  } else {
    decoder(config, biases, &out);
  }
  return std::move(out.tensors);
}

Model make_model(const ModelConfig& config, bool biases) {
  return {config, TensorTable::make(checkpoint_tensors(config, biases)).value()};
}

ModelConfig tiny_llama() {
  ModelConfig c;
  c.family = "llama";
  c.layers = 5;
  c.hidden = 8;
  c.heads = 8;
  c.kv_heads = 2;
  c.head_dim = 4;
  c.intermediate = 24;
  c.vocab = 131;
  return c;
}

ModelConfig tiny_qwen3_moe() {
  ModelConfig c = tiny_llama();
  c.family = "qwen3_moe";
  c.hidden = 24;
  c.tied_embeddings = true;
  c.experts = 8;
  c.moe_intermediate = 12;
  return c;
}

ModelConfig tiny_deepseek() {
  ModelConfig c;
  c.family = "deepseek_v3";
  c.layers = 4;
  c.hidden = 24;
  c.heads = 4;
  c.kv_heads = 4;
  c.intermediate = 24;
  c.vocab = 100;
  c.experts = 8;
  c.moe_intermediate = 12;
  c.shared_experts = 2;
  c.first_dense_layers = 1;
  c.q_lora_rank = 6;
  c.kv_lora_rank = 10;
  c.qk_nope_head_dim = 4;
  c.qk_rope_head_dim = 2;
  c.v_head_dim = 4;
  c.mtp_layers = 1;
  return c;
}

ModelConfig tiny_bert() {
  ModelConfig c;
  c.family = "bert";
  c.layers = 2;
  c.hidden = 16;
  c.heads = 4;
  c.kv_heads = 4;
  c.head_dim = 4;
  c.intermediate = 24;
  c.vocab = 90;
  return c;
}

ModelConfig qwen3_0_6b() {
  ModelConfig c;
  c.family = "qwen3";
  c.layers = 28;
  c.hidden = 1024;
  c.heads = 16;
  c.kv_heads = 8;
  c.head_dim = 128;
  c.intermediate = 3072;
  c.vocab = 151936;
  c.tied_embeddings = true;
  return c;
}

ModelConfig deepseek_v3() {
  ModelConfig c;
  c.family = "deepseek_v3";
  c.layers = 61;
  c.hidden = 7168;
  c.heads = 128;
  c.kv_heads = 128;
  c.intermediate = 18432;
  c.vocab = 129280;
  c.experts = 256;
  c.moe_intermediate = 2048;
  c.shared_experts = 1;
  c.first_dense_layers = 3;
  c.q_lora_rank = 1536;
  c.kv_lora_rank = 512;
  c.qk_nope_head_dim = 128;
  c.qk_rope_head_dim = 64;
  c.v_head_dim = 128;
  return c;
}

ModelConfig minilm() {
  ModelConfig c;
  c.family = "bert";
  c.layers = 6;
  c.hidden = 384;
  c.heads = 12;
  c.kv_heads = 12;
  c.head_dim = 32;
  c.intermediate = 1536;
  c.vocab = 30522;
  return c;
}

}  // namespace wb::testing
