// An FSDP rank's parameters: FSDP2 (fully_shard, torch.chunk along dimension 0; the fused experts
// of Transformers 5 along dimension 1 when there are more shards than experts) and
// FullyShardedDataParallel (one flat parameter per layer and one for the rest).
#include <algorithm>

#include "cli/expect_builder.h"

namespace wb::cli {
namespace {

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Buffers of the modules, which FSDP leaves whole.
bool is_buffer(const std::string& name) {
  return ends_with(name, "position_ids") || ends_with(name, "e_score_correction_bias");
}

class FsdpRank {
 public:
  FsdpRank(const SourceModel& model, const Spec& spec, uint32_t rank)
      : model_(model),
        c_(model.config()),
        b_(model),
        shards_(spec.shards),
        shard_(rank % spec.shards) {}

  Result<Expectation> per_parameter() && {
    for (const auto& [name, tensor] : model_.tensors()) {
      if (model_.is_alias(name)) continue;
      if (is_buffer(name)) {
        b_.copy(name);
      } else if (name.find(".mlp.experts.") == std::string::npos) {
        const auto [first, count] = chunk(tensor.rows);
        if (count != 0) b_.parameter(name).rows(tensor, first, count);
      }
    }
    for (uint64_t i = c_.first_dense; c_.experts != 0 && i < c_.layers; ++i) {
      const std::string prefix = "model.layers." + std::to_string(i) + ".mlp.experts.";
      if (!b_.has(prefix + "0.gate_proj.weight")) continue;  // a layer without experts
      fused(prefix + "gate_up_proj", prefix, {".gate_proj.weight", ".up_proj.weight"});
      fused(prefix + "down_proj", prefix, {".down_proj.weight"});
    }
    return std::move(b_).take();
  }

  Result<Expectation> flat() && {
    for (const auto& [name, tensor] : model_.tensors()) {
      if (is_buffer(name)) b_.copy(name);
    }
    const bool bert = c_.family == "bert";
    if (bert) {
      for (const char* name :
           {"embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight",
            "embeddings.token_type_embeddings.weight", "embeddings.LayerNorm.weight",
            "embeddings.LayerNorm.bias", "pooler.dense.weight", "pooler.dense.bias"}) {
        add(name);
      }
    } else {
      add("model.embed_tokens.weight");
      add("model.norm.weight");
      if (!c_.tied) add("lm_head.weight");
    }
    finish("_flat_param");
    for (uint64_t i = 0; i < c_.layers; ++i) {
      const std::string prefix =
          (bert ? "encoder.layer." : "model.layers.") + std::to_string(i) + ".";
      if (bert) {
        bert_layer(prefix);
      } else {
        decoder_layer(prefix);
      }
      finish(prefix + "_flat_param");
    }
    return std::move(b_).take();
  }

 private:
  // torch.chunk: ceil(total / shards) for each, the last ones fewer or none.
  std::pair<uint64_t, uint64_t> chunk(uint64_t total) const {
    const uint64_t size = (total + shards_ - 1) / shards_;
    const uint64_t first = std::min(total, shard_ * size);
    return {first, std::min(size, total - first)};
  }

  // [experts, rows of the parts one below the other, columns].
  void fused(const std::string& name, const std::string& prefix,
             std::initializer_list<const char*> parts) {
    const bool by_rows = shards_ > c_.experts;
    const auto [first_expert, experts] =
        by_rows ? std::pair<uint64_t, uint64_t>{0, c_.experts} : chunk(c_.experts);
    if (experts == 0) return;
    auto& p = b_.parameter(name);
    for (uint64_t e = first_expert; e < first_expert + experts; ++e) {
      uint64_t all_rows = 0;
      for (const char* part : parts) all_rows += b_.need(prefix + std::to_string(e) + part).rows;
      const auto [begin, count] =
          by_rows ? chunk(all_rows) : std::pair<uint64_t, uint64_t>{0, all_rows};
      uint64_t at = 0;
      for (const char* part : parts) {
        const SourceTensor& t = b_.need(prefix + std::to_string(e) + part);
        const uint64_t from = std::max(begin, at), to = std::min(begin + count, at + t.rows);
        if (from < to) p.rows(t, from - at, to - from);
        at += t.rows;
      }
    }
  }

  // Appends a tensor to the flat parameter under construction, when the model has it.
  void add(const std::string& name) {
    if (const SourceTensor* t = model_.find(name); t != nullptr) block_.push_back(t);
  }
  void add_both(const std::string& name) {
    add(name + ".weight");
    add(name + ".bias");
  }
  // Parameters in the order of the modules.
  void bert_layer(const std::string& prefix) {
    for (const char* name : {"attention.self.query", "attention.self.key", "attention.self.value",
                             "attention.output.dense", "attention.output.LayerNorm",
                             "intermediate.dense", "output.dense", "output.LayerNorm"}) {
      add_both(prefix + name);
    }
  }
  void decoder_layer(const std::string& prefix) {
    const bool latent = c_.family == "deepseek_v3" || c_.family == "kimi_k2";
    if (latent) {
      for (const char* name : {"q_proj", "q_a_proj", "q_a_layernorm", "q_b_proj",
                               "kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj", "o_proj"}) {
        add(prefix + "self_attn." + name + ".weight");
      }
    } else {
      for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
        add_both(prefix + "self_attn." + name);
      }
      add(prefix + "self_attn.q_norm.weight");
      add(prefix + "self_attn.k_norm.weight");
    }
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      add(prefix + "mlp." + name + ".weight");
    }
    if (!latent) add(prefix + "mlp.gate.weight");
    for (uint64_t e = 0; e < c_.experts; ++e) {
      for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
        add(prefix + "mlp.experts." + std::to_string(e) + "." + name + ".weight");
      }
    }
    if (latent) {
      add(prefix + "mlp.gate.weight");
      for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
        add(prefix + "mlp.shared_experts." + std::string(name) + ".weight");
      }
    }
    add(prefix + "input_layernorm.weight");
    add(prefix + "post_attention_layernorm.weight");
  }
  // Pads the collected block to the number of shards and takes this rank's share.
  void finish(const std::string& name) {
    uint64_t total = 0;
    for (const SourceTensor* t : block_) total += t->elements();
    if (total == 0) return;
    const uint64_t share = (total + shards_ - 1) / shards_;
    const uint64_t begin = shard_ * share, end = std::min(begin + share, total);
    auto& p = b_.parameter(name);
    uint64_t at = 0, held = 0;
    for (const SourceTensor* t : block_) {
      const uint64_t from = std::max(begin, at), to = std::min(end, at + t->elements());
      if (from < to) {
        p.elements(*t, from - at, to - from);
        held += to - from;
      }
      at += t->elements();
    }
    p.free((share - held) * block_.front()->width);
    block_.clear();
  }

  const SourceModel& model_;
  const SourceConfig& c_;
  ExpectationBuilder b_;
  std::vector<const SourceTensor*> block_;
  const uint64_t shards_, shard_;
};

}  // namespace

Result<Expectation> expect_fsdp(const SourceModel& model, const Spec& spec, uint32_t rank) {
  FsdpRank expected(model, spec, rank);
  return spec.flat ? std::move(expected).flat() : std::move(expected).per_parameter();
}

}  // namespace wb::cli
