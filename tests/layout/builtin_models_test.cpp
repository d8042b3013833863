// The built-in models against what is published of them, and against a generator of their tables
// that shares no code with the script that makes them.
#include "layout/builtin_models.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "layout/rules.h"
#include "layout/spec.h"
#include "rules_models.h"

namespace wb {
namespace {

struct Totals {
  uint64_t elements = 0;
  uint64_t f32 = 0;  // of them in fp32
};

Totals totals(const Model& model, int64_t layers = INT64_MAX) {
  Totals out;
  for (const TensorInfo& tensor : model.table.tensors()) {
    constexpr std::string_view kLayers = "model.layers.";
    const bool in_layer = tensor.name.starts_with(kLayers);
    if (in_layer && std::stoll(tensor.name.substr(kLayers.size())) >= layers) continue;
    uint64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= static_cast<uint64_t>(extent);
    out.elements += elements;
    if (tensor.dtype == DType::kF32) out.f32 += elements;
  }
  return out;
}

Model built_in(const std::string& name) {
  auto model = builtin_model(name);
  EXPECT_TRUE(model.ok()) << model.status().to_string();
  return model.ok() ? std::move(model).value() : Model();
}

// As the hub counts them. Qwen3-0.6B with the stored copy of its tied head.
TEST(BuiltinModels, PublishedTotals) {
  EXPECT_EQ(totals(built_in("qwen3-0.6b")).elements, 751'632'384u);
  EXPECT_EQ(totals(built_in("qwen3-30b-a3b")).elements, 30'532'122'624u);
  EXPECT_EQ(totals(built_in("qwen3-235b-a22b")).elements, 235'093'634'560u);
  EXPECT_EQ(totals(built_in("llama-3.1-405b")).elements, 405'853'388'800u);
  EXPECT_EQ(totals(built_in("kimi-k2")).elements, 1'026'408'232'448u);
  const Model deepseek = built_in("deepseek-v3");
  EXPECT_EQ(totals(deepseek, deepseek.config.layers).elements, 671'026'419'200u);
  // Published: 680 571 043 840 in fp8, 3 918 786 560 in bf16 and, without the scales of fp8, the
  // correction biases of 59 routers in fp32.
  EXPECT_EQ(totals(deepseek).f32, 59u * 256);
  EXPECT_EQ(totals(deepseek).elements, 680'571'043'840u + 3'918'786'560u + 59u * 256);
}

TEST(BuiltinModels, PublishedNumbersOfTensors) {
  EXPECT_EQ(built_in("qwen3-0.6b").table.size(), 311u);
  EXPECT_EQ(built_in("qwen3-30b-a3b").table.size(), 18'867u);
  EXPECT_EQ(built_in("qwen3-235b-a22b").table.size(), 36'945u);
}

TEST(BuiltinModels, TablesAreWhatTheConfigurationsMean) {
  for (const std::string_view name : builtin_model_names()) {
    const Model model = built_in(std::string(name));
    auto expected = testing::checkpoint_tensors(model.config);
    // The generator leaves out what tied embeddings do not need.
    if (model.config.tied_embeddings) {
      expected.push_back(
          {"lm_head.weight", DType::kBF16, {model.config.vocab, model.config.hidden}});
    }
    auto table = TensorTable::make(std::move(expected));
    ASSERT_TRUE(table.ok());
    ASSERT_EQ(model.table.size(), table->size()) << name;
    EXPECT_EQ(model.table.digest(), table->digest()) << name;
  }
}

TEST(BuiltinModels, RulesAcceptThem) {
  for (const std::string_view name : builtin_model_names()) {
    const Model model = built_in(std::string(name));
    const bool experts = model.config.experts > 0;
    for (const char* spec : {experts ? "megatron:tp=4,pp=2,dp=4,ep=8,etp=1" : "megatron:tp=4,pp=2",
                             experts ? "vllm:tp=2,dp=4,ep=8" : "vllm:tp=8", "fsdp:shards=8"}) {
      const auto layout = lay_out(*parse_spec(spec), model.config, model.table, 3);
      EXPECT_TRUE(layout.ok()) << name << " " << spec << ": " << layout.status().to_string();
    }
  }
}

TEST(BuiltinModels, UnknownNameListsTheNames) {
  const Status status = builtin_model("gpt-2").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("'gpt-2'"), std::string::npos);
  for (const std::string_view name : builtin_model_names()) {
    EXPECT_NE(status.message().find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace wb
