// A vLLM rank's parameters: from vllm/model_executor/layers/linear.py (QKVParallelLinear,
// MergedColumnParallelLinear, RowParallelLinear), vocab_parallel_embedding.py, fused_moe/layer.py
// and the model files.
#include <algorithm>

#include "cli/expect_builder.h"

namespace wb::cli {
namespace {

class VllmRank {
 public:
  VllmRank(const SourceModel& model, const Spec& spec, uint32_t rank)
      : c_(model.config()), b_(model) {
    // Fastest first: tp, dp, pp, engine.
    tp_ = spec.tp;
    tp_rank_ = rank % spec.tp;
    const uint64_t dp_rank = rank / spec.tp % spec.dp;
    pp_ = spec.pp;
    pp_rank_ = rank / (spec.tp * spec.dp) % spec.pp;
    // Without expert parallelism each expert is cut over all ranks of tp * dp; with it they are
    // whole, and each rank has its share of them.
    expert_parallel_ = spec.ep != 0;
    group_ = uint64_t{spec.tp} * spec.dp;
    group_rank_ = dp_rank * spec.tp + tp_rank_;
  }

  Result<Expectation> decoder() && {
    const bool first = pp_rank_ == 0, last = pp_rank_ + 1 == pp_;
    if (first || (c_.tied && last)) {
      vocabulary("model.embed_tokens.weight");
    }
    uint64_t begin = 0;
    for (uint64_t stage = 0; stage < pp_rank_; ++stage) begin += stage_layers(stage);
    for (uint64_t i = 0; i < stage_layers(pp_rank_); ++i) layer(begin + i);
    if (last) {
      b_.copy("model.norm.weight");
      // Tied: the head is the embedding's own parameter, whatever the checkpoint ships.
      if (!c_.tied) vocabulary("lm_head.weight");
    }
    return std::move(b_).take();
  }

  Result<Expectation> bert() && {
    if (pp_ != 1) return Status(Code::kUnsupported, "vLLM has no pipeline parallelism for BERT");
    // BertEmbedding makes all three tables of VocabParallelEmbedding.
    vocabulary("embeddings.word_embeddings.weight");
    vocabulary("embeddings.position_embeddings.weight");
    vocabulary("embeddings.token_type_embeddings.weight");
    b_.copy("embeddings.LayerNorm.weight");
    b_.copy("embeddings.LayerNorm.bias");
    if (b_.has("embeddings.position_ids")) b_.copy("embeddings.position_ids");
    for (uint64_t i = 0; i < c_.layers; ++i) {
      const std::string prefix = "encoder.layer." + std::to_string(i);
      for (const char* kind : {".weight", ".bias"}) {
        auto& qkv = b_.parameter(prefix + ".attention.self.qkv_proj" + kind);
        for (const char* part : {"query", "key", "value"}) {
          shard_rows(qkv, prefix + ".attention.self." + part + kind);
        }
        shard_rows(b_.parameter(prefix + ".intermediate.dense" + kind),
                   prefix + ".intermediate.dense" + kind);
        b_.copy(prefix + ".attention.output.LayerNorm" + kind);
        b_.copy(prefix + ".output.LayerNorm" + kind);
      }
      for (const char* name : {".attention.output.dense", ".output.dense"}) {
        shard_columns(prefix + name + ".weight");
        b_.copy(prefix + name + ".bias");  // added once, by every rank's own copy
      }
    }
    for (const char* name : {"pooler.dense.weight", "pooler.dense.bias"}) {
      if (b_.has(name)) b_.copy(name);
    }
    return std::move(b_).take();
  }

 private:
  // get_pp_indices: an equal share; the remainder to the stages before the last, from the back.
  uint64_t stage_layers(uint64_t stage) const {
    const uint64_t remainder = c_.layers % pp_;
    const uint64_t from_back = pp_ - stage;  // 1 for the last stage
    return c_.layers / pp_ + (from_back >= 2 && from_back < 2 + remainder ? 1 : 0);
  }

  // VocabParallelEmbedding: padded to 64 rows, cut evenly, rows past the vocabulary are zero.
  void vocabulary(const std::string& name) {
    const SourceTensor& t = b_.need(name);
    const uint64_t share = (t.rows + 63) / 64 * 64 / tp_;
    const uint64_t begin = std::min(t.rows, tp_rank_ * share);
    const uint64_t end = std::min(t.rows, (tp_rank_ + 1) * share);
    b_.parameter(name)
        .rows(t, begin, end - begin)
        .zeros((share - (end - begin)) * t.columns * t.width);
  }

  // ColumnParallelLinear: this rank's rows of one checkpoint tensor, appended.
  void shard_rows(ExpectedParameter& p, const std::string& tensor) {
    const SourceTensor& t = b_.need(tensor);
    p.rows(t, t.rows / tp_ * tp_rank_, t.rows / tp_);
  }
  // RowParallelLinear: this rank's columns.
  void shard_columns(const std::string& name) {
    const SourceTensor& t = b_.need(name);
    b_.parameter(name).columns(t, t.columns / tp_ * tp_rank_, t.columns / tp_);
  }

  void layer(uint64_t i) {
    const std::string prefix = "model.layers." + std::to_string(i);
    b_.copy(prefix + ".input_layernorm.weight");
    b_.copy(prefix + ".post_attention_layernorm.weight");
    if (c_.family == "deepseek_v3" || c_.family == "kimi_k2") {
      latent_attention(prefix + ".self_attn");
    } else {
      attention(prefix + ".self_attn");
    }
    if (c_.experts != 0 && i >= c_.first_dense) {
      experts(prefix + ".mlp");
    } else {
      gated(prefix + ".mlp");
    }
  }

  void attention(const std::string& prefix) {
    // K/V heads: cut while there are enough of them, otherwise each is kept by tp / kv_heads ranks.
    const uint64_t kv = std::max<uint64_t>(1, c_.kv_heads / tp_);
    const uint64_t kv_first = tp_ >= c_.kv_heads ? tp_rank_ / (tp_ / c_.kv_heads) : tp_rank_ * kv;
    for (const char* kind : {".weight", ".bias"}) {
      if (!b_.has(prefix + ".q_proj" + kind)) continue;
      auto& qkv = b_.parameter(prefix + ".qkv_proj" + kind);
      qkv.rows(b_.need(prefix + ".q_proj" + kind), c_.heads / tp_ * tp_rank_ * c_.head_dim,
               c_.heads / tp_ * c_.head_dim);
      for (const char* part : {".k_proj", ".v_proj"}) {
        qkv.rows(b_.need(prefix + part + kind), kv_first * c_.head_dim, kv * c_.head_dim);
      }
    }
    shard_columns(prefix + ".o_proj.weight");
    for (const char* norm : {".q_norm.weight", ".k_norm.weight"}) {
      if (b_.has(prefix + norm)) b_.copy(prefix + norm);
    }
  }

  void latent_attention(const std::string& prefix) {
    if (c_.q_lora_rank != 0) {
      b_.parameter(prefix + ".fused_qkv_a_proj.weight")
          .all(b_.need(prefix + ".q_a_proj.weight"))
          .all(b_.need(prefix + ".kv_a_proj_with_mqa.weight"));
      b_.copy(prefix + ".q_a_layernorm.weight");
      shard_rows(b_.parameter(prefix + ".q_b_proj.weight"), prefix + ".q_b_proj.weight");
    } else {
      b_.copy(prefix + ".kv_a_proj_with_mqa.weight");
      shard_rows(b_.parameter(prefix + ".q_proj.weight"), prefix + ".q_proj.weight");
    }
    b_.copy(prefix + ".kv_a_layernorm.weight");
    shard_rows(b_.parameter(prefix + ".kv_b_proj.weight"), prefix + ".kv_b_proj.weight");
    shard_columns(prefix + ".o_proj.weight");
  }

  void gated(const std::string& prefix) {
    auto& gate_up = b_.parameter(prefix + ".gate_up_proj.weight");
    shard_rows(gate_up, prefix + ".gate_proj.weight");
    shard_rows(gate_up, prefix + ".up_proj.weight");
    shard_columns(prefix + ".down_proj.weight");
  }

  void experts(const std::string& prefix) {
    b_.copy(prefix + ".gate.weight");
    if (b_.has(prefix + ".gate.e_score_correction_bias")) {
      b_.copy(prefix + ".gate.e_score_correction_bias");
    }
    // Linear placement; what does not divide goes to the first ranks.
    const uint64_t more = c_.experts % group_;
    const uint64_t count =
        expert_parallel_ ? c_.experts / group_ + (group_rank_ < more ? 1 : 0) : c_.experts;
    const uint64_t first =
        expert_parallel_ ? c_.experts / group_ * group_rank_ + std::min(group_rank_, more) : 0;
    const uint64_t cuts = expert_parallel_ ? 1 : group_;
    const uint64_t cut = expert_parallel_ ? 0 : group_rank_;
    const auto expert = [&](uint64_t e, const char* part) -> const SourceTensor& {
      return b_.need(prefix + ".experts." + std::to_string(first + e) + part);
    };
    auto& w13 = b_.parameter(prefix + ".experts.w13_weight");
    for (uint64_t e = 0; e < count; ++e) {
      for (const char* part : {".gate_proj.weight", ".up_proj.weight"}) {
        const SourceTensor& t = expert(e, part);
        w13.rows(t, t.rows / cuts * cut, t.rows / cuts);
      }
    }
    auto& w2 = b_.parameter(prefix + ".experts.w2_weight");
    for (uint64_t e = 0; e < count; ++e) {
      const SourceTensor& t = expert(e, ".down_proj.weight");
      w2.columns(t, t.columns / cuts * cut, t.columns / cuts);
    }
    if (c_.shared_experts != 0) gated(prefix + ".shared_experts");
  }

  const SourceConfig& c_;
  ExpectationBuilder b_;
  uint64_t tp_ = 1, tp_rank_ = 0, pp_ = 1, pp_rank_ = 0, group_ = 1, group_rank_ = 0;
  bool expert_parallel_ = false;
};

}  // namespace

Result<Expectation> expect_vllm(const SourceModel& model, const Spec& spec, uint32_t rank) {
  VllmRank expected(model, spec, rank);
  return model.config().family == "bert" ? std::move(expected).bert()
                                         : std::move(expected).decoder();
}

}  // namespace wb::cli
