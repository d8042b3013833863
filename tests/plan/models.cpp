#include "models.h"

#include <cstdio>
#include <cstdlib>

#include "base/checked.h"
#include "layout/rules.h"
#include "layout/spec.h"

namespace wb::test {
namespace {

// What torch's caching allocator rounds to.
constexpr uint64_t kAlignment = 512;

template <typename T>
T checked(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().to_string().c_str());
    std::abort();
  }
  return std::move(result).value();
}

class Tensors {
 public:
  void add(const std::string& name, std::vector<int64_t> shape, DType dtype = DType::kBF16) {
    infos_.push_back(TensorInfo{name, dtype, std::move(shape)});
  }
  void add_gated(const std::string& prefix, int64_t hidden, int64_t width) {
    add(prefix + "gate_proj.weight", {width, hidden});
    add(prefix + "up_proj.weight", {width, hidden});
    add(prefix + "down_proj.weight", {hidden, width});
  }
  void add_ends(const ModelConfig& c) {
    add("model.embed_tokens.weight", {c.vocab, c.hidden});
    add("model.norm.weight", {c.hidden});
    if (!c.tied_embeddings) add("lm_head.weight", {c.vocab, c.hidden});
  }
  TensorTable table() { return checked(TensorTable::make(std::move(infos_))); }

 private:
  std::vector<TensorInfo> infos_;
};

std::string layer_prefix(int64_t layer) { return "model.layers." + std::to_string(layer) + "."; }

}  // namespace

Model qwen3_0_6b() {
  Model model;
  ModelConfig& c = model.config;
  c.family = "qwen3";
  c.layers = 28;
  c.hidden = 1024;
  c.heads = 16;
  c.kv_heads = 8;
  c.head_dim = 128;
  c.intermediate = 3072;
  c.vocab = 151936;
  c.tied_embeddings = true;
  Tensors tensors;
  tensors.add_ends(c);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    tensors.add(prefix + "input_layernorm.weight", {c.hidden});
    tensors.add(prefix + "post_attention_layernorm.weight", {c.hidden});
    tensors.add(prefix + "self_attn.q_proj.weight", {c.heads * c.head_dim, c.hidden});
    tensors.add(prefix + "self_attn.k_proj.weight", {c.kv_heads * c.head_dim, c.hidden});
    tensors.add(prefix + "self_attn.v_proj.weight", {c.kv_heads * c.head_dim, c.hidden});
    tensors.add(prefix + "self_attn.o_proj.weight", {c.hidden, c.heads * c.head_dim});
    tensors.add(prefix + "self_attn.q_norm.weight", {c.head_dim});
    tensors.add(prefix + "self_attn.k_norm.weight", {c.head_dim});
    tensors.add_gated(prefix + "mlp.", c.hidden, c.intermediate);
  }
  model.table = tensors.table();
  return model;
}

Model deepseek_v3(int64_t layers) {
  Model model;
  ModelConfig& c = model.config;
  c.family = "deepseek_v3";
  c.layers = layers;
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
  Tensors tensors;
  tensors.add_ends(c);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    const std::string attention = prefix + "self_attn.";
    tensors.add(prefix + "input_layernorm.weight", {c.hidden});
    tensors.add(prefix + "post_attention_layernorm.weight", {c.hidden});
    tensors.add(attention + "q_a_proj.weight", {c.q_lora_rank, c.hidden});
    tensors.add(attention + "q_a_layernorm.weight", {c.q_lora_rank});
    tensors.add(attention + "q_b_proj.weight",
                {c.heads * (c.qk_nope_head_dim + c.qk_rope_head_dim), c.q_lora_rank});
    tensors.add(attention + "kv_a_proj_with_mqa.weight",
                {c.kv_lora_rank + c.qk_rope_head_dim, c.hidden});
    tensors.add(attention + "kv_a_layernorm.weight", {c.kv_lora_rank});
    tensors.add(attention + "kv_b_proj.weight",
                {c.heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank});
    tensors.add(attention + "o_proj.weight", {c.hidden, c.heads * c.v_head_dim});
    if (layer < c.first_dense_layers) {
      tensors.add_gated(prefix + "mlp.", c.hidden, c.intermediate);
      continue;
    }
    tensors.add(prefix + "mlp.gate.weight", {c.experts, c.hidden});
    tensors.add(prefix + "mlp.gate.e_score_correction_bias", {c.experts}, DType::kF32);
    tensors.add_gated(prefix + "mlp.shared_experts.", c.hidden, c.moe_intermediate);
    for (int64_t e = 0; e < c.experts; ++e) {
      tensors.add_gated(prefix + "mlp.experts." + std::to_string(e) + ".", c.hidden,
                        c.moe_intermediate);
    }
  }
  model.table = tensors.table();
  return model;
}

OwnedWorker rank_of(const Model& model, const std::string& spec, uint32_t rank) {
  OwnedWorker worker;
  worker.name = spec + " rank " + std::to_string(rank);
  worker.layout = checked(lay_out(checked(parse_spec(spec)), model.config, model.table, rank));
  uint64_t offset = 0;
  for (const BufferInfo& buffer : worker.layout.buffers) {
    worker.placement.push_back(Placement{0, offset});
    offset = round_up(offset + buffer.bytes, kAlignment);
  }
  worker.region_bytes.push_back(offset);
  return worker;
}

World world_of(const Model& model, const std::string& trainer, const std::string& rollout,
               uint32_t rank) {
  World world;
  world.table = model.table;
  world.receiver = rank_of(model, rollout, rank);
  const uint32_t sources = checked(parse_spec(trainer)).world();
  for (uint32_t s = 0; s < sources; ++s) world.sources.push_back(rank_of(model, trainer, s));
  return world;
}

ModelJob::ModelJob(Model m, const std::string& trainer, const std::string& rollout)
    : model(std::move(m)) {
  const std::string specs[] = {trainer, rollout};
  for (int s = 0; s < 2; ++s) {
    sides[s] = *lay_out_all(*parse_spec(specs[s]), model.config, model.table);
    for (const LayoutFamily& family : sides[s].families) {
      packed[s].push_back(pack_buffers(family.base));
    }
    for (size_t w = 0; w < sides[s].size(); ++w) {
      const PackedBuffers& p = packed[s][sides[s].members[w].family];
      workers[s].push_back({"w" + std::to_string(w), p.placement, p.region_bytes, {}});
    }
  }
  cluster = plain_cluster(&workers[0], &workers[1]);
}

Fleet ModelJob::fleet() const {
  return *Fleet::make(model.table, {&sides[0], workers[0]}, {&sides[1], workers[1]}, cluster);
}

}  // namespace wb::test
