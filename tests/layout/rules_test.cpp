// Invariants of lay_out that need no oracle: nothing is lost, nothing is there twice, and what
// cannot be laid out is refused by name. That each place is the right one is oracle/main.py's part.
#include "layout/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "rules_fill.h"
#include "rules_models.h"

namespace wb {
namespace {

using ::testing::AllOf;
using testing::fill_cells;
using ::testing::HasSubstr;
using testing::kNothingCell;
using testing::make_model;
using testing::Model;

Spec spec_of(const std::string& text) {
  const auto spec = parse_spec(text);
  EXPECT_TRUE(spec.ok()) << spec.status().to_string();
  return spec.ok() ? *spec : Spec();
}

Status refusal(const std::string& spec, const Model& model, uint32_t rank = 0) {
  return lay_out(spec_of(spec), model.config, model.table, rank).status();
}

// A tensor that no worker holds, because it is a second copy of another.
bool is_alias(const Model& model, const std::string& name) {
  const ModelConfig& c = model.config;
  if (c.family != "bert" && c.tied_embeddings && name == "lm_head.weight") return true;
  for (int64_t j = 0; j < c.mtp_layers; ++j) {
    const std::string at = "model.layers." + std::to_string(c.layers + j) + ".";
    if (name == at + "embed_tokens.weight" || name == at + "shared_head.head.weight") return true;
  }
  return false;
}

bool is_mtp(const Model& model, const std::string& name) {
  for (int64_t j = 0; j < model.config.mtp_layers; ++j) {
    if (name.starts_with("model.layers." + std::to_string(model.config.layers + j) + ".")) {
      return true;
    }
  }
  return false;
}

// Marks what a rank holds; empty when all is well, else the fault.
std::string mark_rank(const Spec& spec, const Model& model, uint32_t rank,
                      std::vector<std::vector<bool>>* held) {
  const auto layout = lay_out(spec, model.config, model.table, rank);
  if (!layout.ok()) return layout.status().to_string();
  for (LayoutRole role : {LayoutRole::kSource, LayoutRole::kReceiver}) {
    const Status checked = check_layout(model.table, *layout, role);
    if (!checked.ok()) return checked.to_string();
  }
  std::set<std::string> names;
  for (const BufferInfo& buffer : layout->buffers) {
    if (!names.insert(buffer.name).second) return "two buffers " + buffer.name;
    if (buffer.bytes == 0) return "an empty buffer " + buffer.name;
    if (buffer.name.find('{') != std::string::npos) return "placeholder in " + buffer.name;
  }
  std::string fault;
  const auto cells = fill_cells(model.table, *layout, &fault);
  if (!cells) return fault;
  for (size_t b = 0; b < cells->size(); ++b) {
    for (const int64_t cell : (*cells)[b]) {
      if (cell == kNothingCell) return layout->buffers[b].name + " has bytes without a meaning";
      if (cell < 0) continue;
      const auto index = static_cast<size_t>(cell & ((int64_t{1} << 40) - 1));
      (*held)[static_cast<size_t>(cell >> 40)][index] = true;
    }
  }
  return "";
}

// Every element of every tensor is held by some rank, except the second copies and, in vLLM, the
// multi-token-prediction layers, of which nothing is held.
std::string union_fault(const Spec& spec, const Model& model) {
  std::vector<std::vector<bool>> held;
  for (const TensorInfo& tensor : model.table.tensors()) {
    held.emplace_back(tensor.bytes() / dtype_info(tensor.dtype).unit_bytes, false);
  }
  for (uint32_t rank = 0; rank < spec.world(); ++rank) {
    const std::string fault = mark_rank(spec, model, rank, &held);
    if (!fault.empty()) return "rank " + std::to_string(rank) + ": " + fault;
  }
  for (uint32_t t = 0; t < model.table.size(); ++t) {
    const std::string& name = model.table[t].name;
    const bool wanted =
        !is_alias(model, name) && !(spec.framework == Framework::kVllm && is_mtp(model, name));
    if (std::count(held[t].begin(), held[t].end(), !wanted) != 0) {
      return name + (wanted ? " is not held whole" : " is held");
    }
  }
  return "";
}

TEST(Rules, AllRanksTogetherHoldEverything) {
  const std::vector<Model> models = {
      make_model(testing::tiny_llama()), make_model(testing::tiny_llama(), true),
      make_model(testing::tiny_qwen3_moe()), make_model(testing::tiny_deepseek()),
      make_model(testing::tiny_bert())};
  for (const Model& model : models) {
    std::vector<std::string> specs = {"megatron",
                                      "megatron:tp=4",
                                      "megatron:tp=2,pp=2,dp=2",
                                      "megatron:pp=2,vpp=2,cp=2",
                                      "fsdp:shards=3",
                                      "fsdp:shards=64",
                                      "fsdp:shards=2,replicas=2",
                                      "fsdp:shards=5,flat=1",
                                      "fsdp:shards=64,flat=1",
                                      "vllm:tp=4",
                                      "vllm:tp=2,dp=2,engines=2",
                                      "replicated:n=2"};
    if (model.config.layers < 4) specs.erase(specs.begin() + 3);
    if (model.config.family != "bert") specs.push_back("vllm:tp=2,pp=3");
    if (model.config.experts > 0) {
      specs[5] = "fsdp:shards=12";  // more than 8 experts: along dimension 1
      specs.insert(specs.end(), {"megatron:tp=2,dp=2,ep=2", "megatron:tp=2,dp=2,ep=4,etp=1",
                                 "vllm:tp=2,dp=2,ep=4", "vllm:dp=3,ep=3", "vllm:tp=2,dp=2"});
    }
    for (const std::string& spec : specs) {
      EXPECT_EQ(union_fault(spec_of(spec), model), "") << model.config.family << " " << spec;
    }
  }
}

int64_t pick(std::initializer_list<int64_t> values) {
  return *rc::gen::elementOf(std::vector<int64_t>(values));
}

ModelConfig any_config() {
  ModelConfig c = *rc::gen::element(testing::tiny_llama(), testing::tiny_qwen3_moe(),
                                    testing::tiny_deepseek(), testing::tiny_bert());
  c.layers = *rc::gen::inRange<int64_t>(2, 7);
  c.intermediate = pick({12, 16, 24, 30});
  c.vocab = pick({1, 63, 64, 65, 128, 200});
  if (c.family == "bert") {
    c.heads = c.kv_heads = pick({2, 4, 8, 16});
    c.head_dim = c.hidden / c.heads;
  } else if (c.kv_lora_rank == 0) {
    c.kv_heads = pick({1, 2, 3, 4});
    c.heads = c.kv_heads * pick({1, 2, 3, 4});
    c.head_dim = pick({1, 2, 4, 6});
  } else {
    c.heads = c.kv_heads = pick({1, 2, 4, 6});
  }
  if (c.experts > 0) {
    c.experts = pick({1, 3, 4, 8});
    c.moe_intermediate = pick({4, 6, 12});
    c.first_dense_layers = pick({0, 1});
  }
  return c;
}

Spec any_spec() {
  Spec spec;
  spec.framework = *rc::gen::element(Framework::kMegatron, Framework::kFsdp, Framework::kVllm);
  const auto part = [] { return static_cast<uint32_t>(pick({1, 2, 3, 4})); };
  if (spec.framework == Framework::kFsdp) {
    spec.shards = static_cast<uint32_t>(*rc::gen::inRange(1, 20));
    spec.flat = *rc::gen::arbitrary<bool>();
    return spec;
  }
  spec.tp = part();
  spec.pp = part();
  spec.dp = part();
  if (spec.framework == Framework::kVllm) {
    spec.ep = *rc::gen::arbitrary<bool>() ? spec.tp * spec.dp : 0;
  } else {
    spec.vpp = spec.pp > 1 ? static_cast<uint32_t>(pick({1, 2})) : 1;
    spec.ep = static_cast<uint32_t>(pick({0, 2, 3, 4}));
    spec.etp = static_cast<uint32_t>(pick({0, 1, 2}));
  }
  return spec;
}

// Any model with any layout: refused with a reason, or nothing lost and nothing twice.
TEST(Rules, AnyLayoutIsRefusedOrComplete) {
  int complete = 0;
  EXPECT_TRUE(rc::check([&] {
    const Model model = make_model(any_config(), *rc::gen::arbitrary<bool>());
    const Spec spec = any_spec();
    if (!spec.check().ok()) return;
    // A framework may refuse in a rank of a later stage what its first stage does not hold.
    for (uint32_t rank = 0; rank < spec.world(); ++rank) {
      const auto layout = lay_out(spec, model.config, model.table, rank);
      if (layout.ok()) continue;
      RC_ASSERT(layout.status().code() == Code::kInvalidArgument);
      return;
    }
    ++complete;
    const std::string fault = union_fault(spec, model);
    if (!fault.empty()) RC_FAIL(model.config.family + " " + spec.to_string() + ": " + fault);
  }));
  EXPECT_GT(complete, 10);
}

TEST(Rules, RealModelsAtTheirTrueSizes) {
  const Model minilm = make_model(testing::minilm());
  EXPECT_EQ(minilm.table.size(), 104u);
  const Model qwen = make_model(testing::qwen3_0_6b());
  const Model deepseek = make_model(testing::deepseek_v3());
  EXPECT_EQ(deepseek.table.size(), 45395u);
  const auto bytes = [](const Model& model, const std::string& spec, uint32_t rank) {
    const auto layout = lay_out(spec_of(spec), model.config, model.table, rank);
    EXPECT_TRUE(layout.ok()) << spec << ": " << layout.status().to_string();
    if (!layout.ok()) return uint64_t{0};
    const Status checked = check_layout(model.table, *layout, LayoutRole::kReceiver);
    EXPECT_TRUE(checked.ok()) << spec << ": " << checked.to_string();
    return layout->piece_bytes(model.table);
  };
  EXPECT_EQ(bytes(minilm, "replicated", 0), minilm.table.bytes());
  EXPECT_EQ(bytes(minilm, "megatron", 0), minilm.table.bytes());
  EXPECT_EQ(bytes(minilm, "vllm", 0), minilm.table.bytes());
  EXPECT_EQ(bytes(qwen, "vllm", 0), qwen.table.bytes());
  EXPECT_EQ(bytes(deepseek, "replicated", 0), deepseek.table.bytes());
  // 64 of 256 ranks hold nothing of the 576 rows of kv_a_proj: ceil(576 / 256) = 3 rows each.
  const auto none = lay_out(spec_of("fsdp:shards=256"), deepseek.config, deepseek.table, 192);
  const auto some = lay_out(spec_of("fsdp:shards=256"), deepseek.config, deepseek.table, 191);
  ASSERT_TRUE(none.ok() && some.ok());
  const auto holds = [](const WorkerLayout& layout, const std::string& name) {
    return std::any_of(layout.buffers.begin(), layout.buffers.end(),
                       [&](const BufferInfo& buffer) { return buffer.name == name; });
  };
  EXPECT_FALSE(holds(*none, "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"));
  EXPECT_TRUE(holds(*some, "model.layers.0.self_attn.kv_a_proj_with_mqa.weight"));
  // Experts of a dense-parallel world of 256: ep = 64 leaves 4 per rank and layer.
  EXPECT_GT(bytes(deepseek, "megatron:tp=1,pp=4,dp=64,ep=64,layers=16/16/15/14", 255), 0u);
  EXPECT_GT(bytes(deepseek, "vllm:tp=1,dp=32,ep=32,engines=4", 127), 0u);
}

TEST(Rules, PaddingOfTheVocabulary) {
  const Model model = make_model(testing::tiny_llama());  // 131 rows
  const auto extras = [&](const std::string& spec, uint32_t rank) {
    return lay_out(spec_of(spec), model.config, model.table, rank)->extras;
  };
  const auto megatron = extras("megatron:tp=2", 1);  // 2 * 128 rows; 128 + 3 of the model
  ASSERT_EQ(megatron.size(), 2u);
  EXPECT_EQ(megatron[0].kind, ExtraKind::kUnmapped);
  EXPECT_EQ(megatron[0].bytes, 125u * 8 * 2);
  const auto vllm = extras("vllm:tp=4", 2);  // 192 rows, 48 a rank, rank 2 from row 96
  ASSERT_EQ(vllm.size(), 2u);
  EXPECT_EQ(vllm[0].kind, ExtraKind::kZeroFill);
  EXPECT_EQ(vllm[0].offset, 35u * 8 * 2);
  EXPECT_EQ(vllm[0].bytes, 13u * 8 * 2);
  EXPECT_EQ(extras("vllm:tp=4", 3)[0].bytes, 48u * 8 * 2) << "a rank with padding only";
  EXPECT_TRUE(extras("megatron:tp=2", 0).empty());
}

TEST(Rules, AFlatShardTakesAtMostThreeBoxesOfATensor) {
  const Model model = make_model(testing::tiny_llama());
  size_t most = 0;
  for (uint32_t rank = 0; rank < 7; ++rank) {
    const auto layout = lay_out(spec_of("fsdp:shards=7,flat=1"), model.config, model.table, rank);
    ASSERT_TRUE(layout.ok());
    std::vector<size_t> boxes(model.table.size());
    for (const Piece& piece : layout->pieces) most = std::max(most, ++boxes[piece.tensor]);
  }
  EXPECT_EQ(most, 3u);
}

TEST(Rules, TheFrameworksOwnRefusals) {
  const Model llama = make_model(testing::tiny_llama());  // 8 heads, 2 KV heads
  EXPECT_THAT(refusal("vllm:tp=3", llama).message(),
              HasSubstr("Total number of attention heads (8) must be divisible by tensor parallel "
                        "size (3)"));
  EXPECT_THAT(refusal("megatron:tp=3", llama).message(),
              HasSubstr("num_attention_heads (8) must be a multiple of "
                        "tensor_model_parallel_size (3)"));
  ModelConfig odd = testing::tiny_llama();
  odd.heads = 12;
  odd.kv_heads = 3;
  const Model three = make_model(odd);
  EXPECT_THAT(refusal("vllm:tp=2", three).message(),
              AllOf(HasSubstr("3 is not divisible by 2"), HasSubstr("KV heads (3)")));
  EXPECT_THAT(refusal("vllm:tp=4", three).message(), HasSubstr("4 is not divisible by 3"));
  EXPECT_THAT(refusal("megatron:tp=2", three).message(),
              HasSubstr("num_query_groups (3) must be a multiple or divisor of"));
  odd = testing::tiny_llama();
  odd.intermediate = 26;
  const Model ffn = make_model(odd);
  EXPECT_THAT(refusal("vllm:tp=4", ffn).message(),
              AllOf(HasSubstr("gate_up_proj"), HasSubstr("26 is not divisible by 4")));
  const Model moe = make_model(testing::tiny_qwen3_moe());  // 8 experts
  EXPECT_THAT(refusal("megatron:dp=3,ep=3", moe).message(),
              HasSubstr("num_moe_experts (8) must be divisible by"));
  EXPECT_THAT(refusal("megatron:dp=2,ep=2", llama).message(), HasSubstr("model with experts"));
  EXPECT_THAT(refusal("vllm:dp=2,ep=2", llama).message(), HasSubstr("greater than 0"));
  EXPECT_THAT(refusal("vllm:dp=9,ep=9", moe).message(), HasSubstr("8 experts"));
  EXPECT_THAT(refusal("fsdp:shards=9", moe).message(),
              HasSubstr("does not support uneven sharding on dim 1: [8, 24, 24] (world size: 9)"));
  const Model bert = make_model(testing::tiny_bert());
  EXPECT_THAT(refusal("vllm:pp=2", bert).message(),
              HasSubstr("Pipeline parallelism is not supported"));
  EXPECT_THAT(refusal("megatron:pp=3,vpp=2", llama).message(), HasSubstr("5 layers do not fill 6"));
  EXPECT_THAT(refusal("megatron:pp=2,layers=3/3", llama).message(), HasSubstr("add up to 6"));
  EXPECT_THAT(refusal("vllm:tp=2", llama, 2).message(),
              HasSubstr("rank 2 is not in vllm:tp=2, which has ranks 0 to 1"));
}

TEST(Rules, FlatParametersHaveOneType) {
  auto tensors = testing::checkpoint_tensors(testing::tiny_llama());
  for (TensorInfo& tensor : tensors) {
    if (tensor.name == "model.layers.1.input_layernorm.weight") tensor.dtype = DType::kF32;
  }
  const Model mixed = {testing::tiny_llama(), *TensorTable::make(std::move(tensors))};
  EXPECT_EQ(refusal("fsdp:shards=2", mixed).code(), Code::kOk);
  EXPECT_THAT(refusal("fsdp:shards=2,flat=1", mixed).message(),
              HasSubstr("Must flatten tensors with uniform dtype but got BF16 and F32"));
}

// One tensor of a sound table is dropped, renamed, reshaped or doubled.
Status damaged(const ModelConfig& config, const std::string& name,
               const std::function<void(TensorInfo*, std::vector<TensorInfo>*)>& damage,
               const std::string& spec = "replicated") {
  auto tensors = testing::checkpoint_tensors(config, true);
  const auto at = std::find_if(tensors.begin(), tensors.end(),
                               [&](const TensorInfo& tensor) { return tensor.name == name; });
  EXPECT_NE(at, tensors.end()) << name;
  std::vector<TensorInfo> more;
  damage(&*at, &more);
  if (at->name.empty()) tensors.erase(at);
  tensors.insert(tensors.end(), more.begin(), more.end());
  auto table = TensorTable::make(std::move(tensors));
  EXPECT_TRUE(table.ok());
  return lay_out(spec_of(spec), config, *table, 0).status();
}

TEST(Rules, ATableThatIsNotTheConfigurationsIsAMismatch) {
  const auto drop = [](TensorInfo* tensor, std::vector<TensorInfo>*) { tensor->name.clear(); };
  const auto rename = [](std::string to) {
    return [to](TensorInfo* tensor, std::vector<TensorInfo>*) { tensor->name = to; };
  };
  const auto expect = [](const Status& status, const std::string& tensor, const char* what) {
    EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(what));
    EXPECT_EQ(status.facts().tensor, tensor);
  };
  const ModelConfig llama = testing::tiny_llama();
  const ModelConfig moe = testing::tiny_deepseek();
  const ModelConfig bert = testing::tiny_bert();
  const std::string norm = "model.layers.3.input_layernorm.weight";
  expect(damaged(llama, norm, drop), norm, "is missing");
  expect(damaged(llama, "model.norm.weight", drop), "model.norm.weight", "is missing");
  expect(damaged(llama, "lm_head.weight", drop), "lm_head.weight", "is missing");
  expect(damaged(llama, norm, rename("model.layers.3.input_norm.weight")),
         "model.layers.3.input_norm.weight", "is unknown");
  expect(damaged(llama, norm, rename("model.layers.5.input_layernorm.weight")),
         "model.layers.5.input_layernorm.weight", "is unknown");
  expect(damaged(llama, norm, rename("model.layers.03.input_layernorm.weight")),
         "model.layers.03.input_layernorm.weight", "is unknown");
  expect(damaged(llama, norm, rename("model.layers.99999999999999999999.input_layernorm.weight")),
         "model.layers.99999999999999999999.input_layernorm.weight", "is unknown");
  expect(damaged(llama, norm, [](TensorInfo* t, auto*) { t->shape = {9}; }), norm,
         "has shape [9]; the configuration gives [8]");
  expect(damaged(llama, norm, [](TensorInfo* t, auto*) { t->shape = {8, 1}; }), norm, "has shape");
  expect(damaged(llama, norm, [](TensorInfo* t, auto*) { t->shape = {}; }), norm, "has shape");
  const std::string bias = "model.layers.2.self_attn.v_proj.bias";
  expect(damaged(llama, bias, drop), bias, "is missing");
  const std::string expert = "model.layers.2.mlp.experts.7.up_proj.weight";
  expect(damaged(moe, expert, drop), expert, "is missing");
  expect(damaged(moe, expert, rename("model.layers.2.mlp.experts.8.up_proj.weight")),
         "model.layers.2.mlp.experts.8.up_proj.weight", "is unknown");
  expect(damaged(moe, "model.layers.4.eh_proj.weight", drop), "model.layers.4.eh_proj.weight",
         "is missing");
  expect(damaged(moe, "model.layers.4.embed_tokens.weight",
                 [](TensorInfo* t, auto*) {
                   t->shape = {1, 8};
                 }),
         "model.layers.4.embed_tokens.weight", "is not a copy of model.embed_tokens.weight");
  expect(damaged(moe, "model.layers.0.mlp.up_proj.weight",
                 rename("model.layers.1.mlp.up_proj.weight")),
         "model.layers.0.mlp.up_proj.weight", "is missing");
  expect(damaged(bert, "pooler.dense.bias", rename("cls.predictions.bias")), "cls.predictions.bias",
         "is unknown");
  const auto twice = [](TensorInfo* tensor, std::vector<TensorInfo>* more) {
    more->push_back(*tensor);
    more->back().name = "bert." + tensor->name;
  };
  EXPECT_THAT(damaged(bert, "pooler.dense.bias", twice).message(), HasSubstr("a second time"));
}

TEST(Rules, LayersMustBeThoseOfTheConfiguration) {
  ModelConfig config = testing::tiny_llama();
  const Model model = make_model(config);
  config.layers = 6;
  EXPECT_THAT(lay_out(Spec(), config, model.table, 0).status().message(),
              HasSubstr("layer 5 has no tensors"));
  config.layers = 1 << 24;
  EXPECT_EQ(lay_out(Spec(), config, model.table, 0).status().code(), Code::kMismatch);
  config = testing::tiny_deepseek();
  const Model moe = make_model(config);
  config.first_dense_layers = 2;
  EXPECT_THAT(lay_out(Spec(), config, moe.table, 0).status().message(),
              HasSubstr("layer 1 has experts"));
  config.first_dense_layers = 0;
  EXPECT_THAT(lay_out(Spec(), config, moe.table, 0).status().message(),
              HasSubstr("layer 0 has no experts"));
  config = testing::tiny_deepseek();
  config.mtp_layers = 0;
  EXPECT_THAT(lay_out(Spec(), config, moe.table, 0).status().message(), HasSubstr("is unknown"));
  config.mtp_layers = 2;
  EXPECT_THAT(lay_out(Spec(), config, moe.table, 0).status().message(),
              HasSubstr("layer 5 has no tensors"));
}

TEST(Rules, ImpossibleConfigurationsAreRefused) {
  const Model model = make_model(testing::tiny_llama());
  const auto with = [&](auto change) {
    ModelConfig config = model.config;
    change(&config);
    return lay_out(spec_of("megatron"), config, model.table, 0).status();
  };
  EXPECT_EQ(with([](ModelConfig* c) { c->family = "mamba"; }).code(), Code::kUnsupported);
  EXPECT_THAT(with([](ModelConfig* c) { c->family = "mamba"; }).message(), HasSubstr("'mamba'"));
  EXPECT_FALSE(with([](ModelConfig* c) { c->layers = 0; }).ok());
  EXPECT_FALSE(with([](ModelConfig* c) { c->layers = INT64_MAX; }).ok());
  EXPECT_FALSE(with([](ModelConfig* c) { c->heads = 0; }).ok());
  EXPECT_FALSE(with([](ModelConfig* c) { c->heads = -8; }).ok());
  EXPECT_FALSE(with([](ModelConfig* c) { c->kv_heads = 3; }).ok());
  EXPECT_FALSE(with([](ModelConfig* c) { c->hidden = INT64_MAX; }).ok());
  EXPECT_FALSE(with([](ModelConfig* c) { c->head_dim = INT64_MAX / 2; }).ok());
  EXPECT_FALSE(with([](ModelConfig* c) { c->vocab = 0; }).ok());
  EXPECT_FALSE(with([](ModelConfig* c) { c->experts = 1000; }).ok());
}

TEST(Rules, AStoredSecondHeadIsHeldByNobody) {
  const ModelConfig config = testing::tiny_qwen3_moe();  // tied
  auto tensors = testing::checkpoint_tensors(config);
  tensors.push_back({"lm_head.weight", DType::kBF16, {config.vocab, config.hidden}});
  const Model model = {config, *TensorTable::make(std::move(tensors))};
  for (const char* spec :
       {"megatron:tp=2,pp=2", "fsdp:shards=3", "fsdp:flat=1", "vllm:tp=2,pp=2", "replicated"}) {
    EXPECT_EQ(union_fault(spec_of(spec), model), "") << spec;
  }
}

TEST(Rules, FusedTensorsHaveOneType) {
  const Status status = damaged(
      testing::tiny_llama(), "model.layers.1.self_attn.k_proj.weight",
      [](TensorInfo* tensor, auto*) { tensor->dtype = DType::kF16; }, "megatron");
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("k_proj"), HasSubstr("linear_qkv")));
}

// Types narrower than a byte: whole bytes or an error, never a cut inside a byte.
TEST(Rules, SubByteTypesAreCutOnBytesOnly) {
  ModelConfig config = testing::tiny_llama();
  config.head_dim = 1;
  config.hidden = 16;
  auto tensors = testing::checkpoint_tensors(config);
  for (TensorInfo& tensor : tensors) tensor.dtype = DType::kF4;
  const Model model = {config, *TensorTable::make(std::move(tensors))};
  EXPECT_EQ(union_fault(spec_of("vllm:tp=4"), model), "") << "o_proj: 2 of 8 columns";
  EXPECT_EQ(union_fault(spec_of("fsdp:shards=3,flat=1"), model), "");
  const Status status = refusal("vllm:tp=8", model);
  EXPECT_EQ(status.code(), Code::kUnsupported) << status.to_string();
  EXPECT_THAT(status.message(), AllOf(HasSubstr("o_proj"), HasSubstr("byte")));
}

}  // namespace
}  // namespace wb
