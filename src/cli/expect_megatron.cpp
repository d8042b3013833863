// A Megatron-core rank's parameters (Transformer Engine layers, TEGroupedMLP experts): from
// transformer/attention.py, mlp.py, moe/experts.py, multi_latent_attention.py and
// tensor_parallel/layers.py, under the names of its modules.
#include <algorithm>

#include "cli/expect_builder.h"

namespace wb::cli {
namespace {

class MegatronRank {
 public:
  MegatronRank(const SourceModel& model, const Spec& spec, uint32_t rank)
      : c_(model.config()), b_(model), spec_(spec) {
    // Dense, fastest first: tp, cp, dp, pp. Experts inside a stage: etp, ep, expert-dp.
    const uint64_t stage_ranks = uint64_t{spec.tp} * spec.cp * spec.dp;
    const uint64_t inside = rank % stage_ranks;
    stage_ = rank / stage_ranks;
    tp_ = spec.tp;
    tp_rank_ = inside % tp_;
    etp_ = spec.etp == 0 ? spec.tp : spec.etp;
    etp_rank_ = inside % etp_;
    const uint64_t ep = std::max(1u, spec.ep);
    local_experts_ = c_.experts / ep;
    first_expert_ = inside / etp_ % ep * local_experts_;
  }

  Result<Expectation> decoder() && {
    for (uint64_t v = 0; v < spec_.vpp; ++v) chunk(v, /*bert=*/false);
    const bool first = stage_ == 0, last = stage_ + 1 == spec_.pp;
    if (first)
      vocabulary(prefix(0) + "embedding.word_embeddings.weight", "model.embed_tokens.weight");
    if (last) {
      const std::string p = prefix(spec_.vpp - 1);
      b_.copy(p + "decoder.final_layernorm.weight", "model.norm.weight");
      if (!c_.tied) vocabulary(p + "output_layer.weight", "lm_head.weight");
      // Tied over stages: the last one has a copy of the embedding.
      if (c_.tied && !first) vocabulary(p + "output_layer.weight", "model.embed_tokens.weight");
    }
    return std::move(b_).take();
  }

  Result<Expectation> bert() && {
    for (uint64_t v = 0; v < spec_.vpp; ++v) chunk(v, /*bert=*/true);
    if (stage_ == 0) {
      const std::string p = prefix(0) + "embedding.";
      vocabulary(p + "word_embeddings.weight", "embeddings.word_embeddings.weight");
      b_.copy(p + "position_embeddings.weight", "embeddings.position_embeddings.weight");
      b_.copy(p + "tokentype_embeddings.weight", "embeddings.token_type_embeddings.weight");
      b_.copy(p + "layernorm.weight", "embeddings.LayerNorm.weight");
      b_.copy(p + "layernorm.bias", "embeddings.LayerNorm.bias");
      if (b_.has("embeddings.position_ids")) {
        b_.copy(p + "position_ids", "embeddings.position_ids");
      }
    }
    if (stage_ + 1 == spec_.pp) {
      for (const char* name : {"pooler.dense.weight", "pooler.dense.bias"}) {
        if (b_.has(name)) b_.copy(prefix(spec_.vpp - 1) + name, name);
      }
    }
    return std::move(b_).take();
  }

 private:
  std::string prefix(uint64_t v) const {
    return spec_.vpp == 1 ? "" : "vp_stages." + std::to_string(v) + ".";
  }

  // Layers of one model chunk: chunk v * pp + stage of all, the first chunks one more.
  void chunk(uint64_t v, bool bert) {
    const uint64_t chunks = uint64_t{spec_.pp} * spec_.vpp, index = v * spec_.pp + stage_;
    uint64_t begin = 0, count = 0;
    for (uint64_t j = 0; j <= index; ++j) {
      begin += count;
      count = spec_.layers.empty() ? c_.layers / chunks + (j < c_.layers % chunks ? 1 : 0)
                                   : spec_.layers[j];
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (bert) {
        bert_layer(prefix(v) + "encoder.layers." + std::to_string(i), begin + i);
      } else {
        layer(prefix(v) + "decoder.layers." + std::to_string(i), begin + i);
      }
    }
  }

  // Rows padded to 128 * tp, cut evenly; the padding is ordinary rows that nobody reads.
  void vocabulary(const std::string& name, const std::string& tensor) {
    const SourceTensor& t = b_.need(tensor);
    const uint64_t share = (t.rows + 128 * tp_ - 1) / (128 * tp_) * 128;
    const uint64_t begin = std::min(t.rows, tp_rank_ * share);
    const uint64_t end = std::min(t.rows, begin + share);
    b_.parameter(name)
        .rows(t, begin, end - begin)
        .free((share - (end - begin)) * t.columns * t.width);
  }

  // ColumnParallelLinear and RowParallelLinear.
  void rows(ExpectedParameter& p, const std::string& tensor, uint64_t parts, uint64_t part) {
    const SourceTensor& t = b_.need(tensor);
    p.rows(t, t.rows / parts * part, t.rows / parts);
  }
  void columns(const std::string& name, const std::string& tensor, uint64_t parts, uint64_t part) {
    const SourceTensor& t = b_.need(tensor);
    b_.parameter(name).columns(t, t.columns / parts * part, t.columns / parts);
  }

  // linear_qkv: per K/V group [queries | key | value]; a rank has an even interval of all rows.
  void qkv(const std::string& name, const SourceTensor& q, const SourceTensor& k,
           const SourceTensor& v) {
    const uint64_t hd = c_.head_dim, per_group = c_.heads / c_.kv_heads;
    const uint64_t share = (c_.heads + 2 * c_.kv_heads) * hd / tp_;
    const uint64_t begin = tp_rank_ * share, end = begin + share;
    auto& p = b_.parameter(name);
    uint64_t at = 0;
    const auto append = [&](const SourceTensor& t, uint64_t head) {
      const uint64_t from = std::max(at, begin), to = std::min(at + hd, end);
      if (from < to) p.rows(t, head * hd + (from - at), to - from);
      at += hd;
    };
    for (uint64_t g = 0; g < c_.kv_heads; ++g) {
      for (uint64_t h = 0; h < per_group; ++h) append(q, g * per_group + h);
      append(k, g);
      append(v, g);
    }
  }

  void gated(const std::string& name, const std::string& tensors, uint64_t parts, uint64_t part) {
    auto& fc1 = b_.parameter(name);
    rows(fc1, tensors + ".gate_proj.weight", parts, part);
    rows(fc1, tensors + ".up_proj.weight", parts, part);
  }

  void layer(const std::string& own, uint64_t i) {
    const std::string hf = "model.layers." + std::to_string(i);
    const std::string attention = own + ".self_attention", source = hf + ".self_attn";
    if (c_.family == "deepseek_v3" || c_.family == "kimi_k2") {
      b_.copy(own + ".input_layernorm.weight", hf + ".input_layernorm.weight");
      latent_attention(attention, source);
    } else {
      b_.copy(attention + ".linear_qkv.layer_norm_weight", hf + ".input_layernorm.weight");
      for (const char* kind : {".weight", ".bias"}) {
        if (!b_.has(source + ".q_proj" + kind)) continue;
        qkv(attention + ".linear_qkv" + kind, b_.need(source + ".q_proj" + kind),
            b_.need(source + ".k_proj" + kind), b_.need(source + ".v_proj" + kind));
      }
      for (const char* norm : {"q", "k"}) {
        const std::string tensor = source + "." + norm + "_norm.weight";
        if (b_.has(tensor)) b_.copy(attention + "." + norm + "_layernorm.weight", tensor);
      }
    }
    columns(attention + ".linear_proj.weight", source + ".o_proj.weight", tp_, tp_rank_);
    if (b_.has(source + ".o_proj.bias")) {
      b_.copy(attention + ".linear_proj.bias", source + ".o_proj.bias");
    }
    const std::string mlp = own + ".mlp", dense = hf + ".mlp";
    if (!b_.has(dense + ".gate.weight")) {
      b_.copy(mlp + ".linear_fc1.layer_norm_weight", hf + ".post_attention_layernorm.weight");
      gated(mlp + ".linear_fc1.weight", dense, tp_, tp_rank_);
      columns(mlp + ".linear_fc2.weight", dense + ".down_proj.weight", tp_, tp_rank_);
      return;
    }
    b_.copy(own + ".pre_mlp_layernorm.weight", hf + ".post_attention_layernorm.weight");
    experts(mlp, dense);
  }

  void experts(const std::string& mlp, const std::string& source) {
    b_.copy(mlp + ".router.weight", source + ".gate.weight");
    if (b_.has(source + ".gate.e_score_correction_bias")) {
      b_.copy(mlp + ".router.expert_bias", source + ".gate.e_score_correction_bias");
    }
    for (uint64_t k = 0; k < local_experts_; ++k) {
      const std::string expert = source + ".experts." + std::to_string(first_expert_ + k);
      gated(mlp + ".experts.linear_fc1.weight" + std::to_string(k), expert, etp_, etp_rank_);
      columns(mlp + ".experts.linear_fc2.weight" + std::to_string(k), expert + ".down_proj.weight",
              etp_, etp_rank_);
    }
    if (c_.shared_experts != 0) {
      gated(mlp + ".shared_experts.linear_fc1.weight", source + ".shared_experts", tp_, tp_rank_);
      columns(mlp + ".shared_experts.linear_fc2.weight",
              source + ".shared_experts.down_proj.weight", tp_, tp_rank_);
    }
  }

  void latent_attention(const std::string& own, const std::string& source) {
    if (c_.q_lora_rank == 0) {
      rows(b_.parameter(own + ".linear_q_proj.weight"), source + ".q_proj.weight", tp_, tp_rank_);
    } else {
      b_.copy(own + ".linear_q_down_proj.weight", source + ".q_a_proj.weight");
      b_.copy(own + ".linear_q_up_proj.layer_norm_weight", source + ".q_a_layernorm.weight");
      rows(b_.parameter(own + ".linear_q_up_proj.weight"), source + ".q_b_proj.weight", tp_,
           tp_rank_);
    }
    b_.copy(own + ".linear_kv_down_proj.weight", source + ".kv_a_proj_with_mqa.weight");
    b_.copy(own + ".linear_kv_up_proj.layer_norm_weight", source + ".kv_a_layernorm.weight");
    rows(b_.parameter(own + ".linear_kv_up_proj.weight"), source + ".kv_b_proj.weight", tp_,
         tp_rank_);
  }

  void bert_layer(const std::string& own, uint64_t i) {
    const std::string hf = "encoder.layer." + std::to_string(i);
    const std::string self = hf + ".attention.self";
    for (const std::string kind : {".weight", ".bias"}) {
      qkv(own + ".self_attention.linear_qkv" + kind, b_.need(self + ".query" + kind),
          b_.need(self + ".key" + kind), b_.need(self + ".value" + kind));
      rows(b_.parameter(own + ".mlp.linear_fc1" + kind), hf + ".intermediate.dense" + kind, tp_,
           tp_rank_);
      b_.copy(own + ".post_attention_layernorm" + kind, hf + ".attention.output.LayerNorm" + kind);
      b_.copy(own + ".post_mlp_layernorm" + kind, hf + ".output.LayerNorm" + kind);
    }
    columns(own + ".self_attention.linear_proj.weight", hf + ".attention.output.dense.weight", tp_,
            tp_rank_);
    b_.copy(own + ".self_attention.linear_proj.bias", hf + ".attention.output.dense.bias");
    columns(own + ".mlp.linear_fc2.weight", hf + ".output.dense.weight", tp_, tp_rank_);
    b_.copy(own + ".mlp.linear_fc2.bias", hf + ".output.dense.bias");
  }

  const SourceConfig& c_;
  ExpectationBuilder b_;
  const Spec spec_;
  uint64_t stage_ = 0, tp_ = 1, tp_rank_ = 0, etp_ = 1, etp_rank_ = 0;
  uint64_t local_experts_ = 0, first_expert_ = 0;
};

}  // namespace

Result<Expectation> expect_megatron(const SourceModel& model, const Spec& spec, uint32_t rank) {
  MegatronRank expected(model, spec, rank);
  return model.config().family == "bert" ? std::move(expected).bert()
                                         : std::move(expected).decoder();
}

}  // namespace wb::cli
