#include "layout/model_config.h"

#include <gtest/gtest.h>

namespace wb {
namespace {

ModelConfig parsed(const std::string& json) {
  auto config = parse_model_config(json);
  EXPECT_TRUE(config.ok()) << json << config.status().to_string();
  return config.ok() ? *config : ModelConfig();
}

Code code_of(const std::string& json) { return parse_model_config(json).status().code(); }

TEST(ModelConfig, Qwen3AsPublished) {
  const auto c = parsed(R"({"architectures":["Qwen3ForCausalLM"],"attention_bias":false,
    "head_dim":128,"hidden_size":1024,"intermediate_size":3072,"max_window_layers":28,
    "model_type":"qwen3","num_attention_heads":16,"num_hidden_layers":28,"num_key_value_heads":8,
    "rope_scaling":null,"rope_theta":1000000,"sliding_window":null,"tie_word_embeddings":true,
    "torch_dtype":"bfloat16","vocab_size":151936})");
  EXPECT_EQ(c.family, "qwen3");
  EXPECT_EQ(c.layers, 28);
  EXPECT_EQ(c.hidden, 1024);
  EXPECT_EQ(c.heads, 16);
  EXPECT_EQ(c.kv_heads, 8);
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.intermediate, 3072);
  EXPECT_EQ(c.vocab, 151936);
  EXPECT_TRUE(c.tied_embeddings);
  EXPECT_EQ(c.experts, 0);
}

TEST(ModelConfig, SilenceMeansWhatTheClassSays) {
  const auto bert = parsed(R"({"model_type":"bert"})");
  EXPECT_TRUE(bert.tied_embeddings);
  EXPECT_EQ(bert.kv_heads, 12);
  EXPECT_EQ(bert.head_dim, 64);
  const auto llama = parsed(R"({"model_type":"llama","num_attention_heads":16})");
  EXPECT_EQ(llama.kv_heads, 16);
  EXPECT_EQ(llama.head_dim, 256);
  EXPECT_FALSE(llama.tied_embeddings);
  const auto null = parsed(R"({"model_type":"llama","num_key_value_heads":null,"head_dim":null})");
  EXPECT_EQ(null.kv_heads, 32);
  EXPECT_EQ(null.head_dim, 128);
  const auto qwen2 = parsed(R"({"model_type":"qwen2","num_attention_heads":64})");
  EXPECT_EQ(qwen2.kv_heads, 32) << "a number of its own, not that of the heads";
  EXPECT_EQ(parsed(R"({"model_type":"qwen3","hidden_size":1000})").head_dim, 128);
  const auto moe = parsed(R"({"model_type":"qwen3_moe","num_local_experts":60})");
  EXPECT_EQ(moe.kv_heads, 4);
  EXPECT_EQ(moe.head_dim, 64);
  EXPECT_EQ(moe.experts, 60);
  EXPECT_EQ(moe.moe_intermediate, 768);
  const auto deepseek = parsed(R"({"model_type":"deepseek_v3","q_lora_rank":null})");
  EXPECT_EQ(deepseek.experts, 256);
  EXPECT_EQ(deepseek.first_dense_layers, 3);
  EXPECT_EQ(deepseek.q_lora_rank, 0);
  EXPECT_EQ(deepseek.kv_lora_rank, 512);
  EXPECT_EQ(deepseek.qk_nope_head_dim + deepseek.qk_rope_head_dim, 192);
  EXPECT_EQ(deepseek.head_dim, 0);
  EXPECT_EQ(code_of(R"({"model_type":"kimi_k2"})"), Code::kBadData);
}

TEST(ModelConfig, LayersWithoutExperts) {
  EXPECT_EQ(parsed(R"({"model_type":"qwen3_moe","mlp_only_layers":[1,0]})").first_dense_layers, 2);
  EXPECT_EQ(parsed(R"({"model_type":"qwen3_moe","mlp_only_layers":[]})").first_dense_layers, 0);
  EXPECT_EQ(code_of(R"({"model_type":"qwen3_moe","mlp_only_layers":[1]})"), Code::kUnsupported);
  EXPECT_EQ(code_of(R"({"model_type":"qwen3_moe","decoder_sparse_step":2})"), Code::kUnsupported);
  EXPECT_EQ(code_of(R"({"model_type":"qwen3_moe","mlp_only_layers":["0"]})"), Code::kBadData);
  EXPECT_EQ(code_of(R"({"model_type":"qwen3_moe","mlp_only_layers":1})"), Code::kBadData);
  EXPECT_EQ(code_of(R"({"model_type":"deepseek_v3","first_k_dense_replace":62})"), Code::kBadData);
}

TEST(ModelConfig, RefusesWhatIsNotAConfiguration) {
  for (const char* json : {"", "[]", "{}", "7", R"({"model_type":7})", R"({"model_type":"bert")"}) {
    EXPECT_EQ(code_of(json), Code::kBadData) << json;
  }
  for (const char* value : {"0", "-1", "1.5", "4096.0", "\"12\"", "true", "null", "[12]", "{}",
                            "99999999999999999999", "4294967296"}) {
    EXPECT_EQ(code_of(R"({"model_type":"bert","hidden_size":)" + std::string(value) + "}"),
              Code::kBadData)
        << value;
  }
  EXPECT_EQ(code_of(R"({"model_type":"bert","tie_word_embeddings":1})"), Code::kBadData);
  EXPECT_EQ(code_of(R"({"model_type":"bert","hidden_size":770})"), Code::kBadData);
  EXPECT_EQ(code_of(R"({"model_type":"llama","num_key_value_heads":5})"), Code::kBadData);
  EXPECT_EQ(code_of(R"({"model_type":"bert","hidden_size":768,"hidden_size":768})"),
            Code::kBadData);
  EXPECT_EQ(code_of(R"({"model_type":"bert","x":)" + std::string(1'000'000, '[')), Code::kBadData);
  EXPECT_EQ(code_of(R"({"model_type":"qwen3_moe","num_experts":4,"num_local_experts":8})"),
            Code::kBadData);
}

TEST(ModelConfig, NamesTheFamilyItDoesNotKnow) {
  const auto status = parse_model_config(R"({"model_type":"mamba"})").status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("'mamba'"), std::string::npos);
  EXPECT_NE(status.message().find("qwen3_moe"), std::string::npos);
}

}  // namespace
}  // namespace wb
