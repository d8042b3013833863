// The independent expectation against the layout rules, without a transport between them, and
// against buffers that were spoilt on purpose.

#include "cli/expect.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "cli/checkpoint_map.h"
#include "cli/fill.h"
#include "layout/model_config.h"
#include "layout/rules.h"
#include "models.h"

namespace wb::cli {
namespace {

using test::model_folder;

// One rank with its buffers as a correct pull of `version` would leave them.
struct PulledRank {
  WorkerLayout layout;
  std::vector<std::vector<std::byte>> memory;
  std::vector<HeldBuffer> held() const {
    std::vector<HeldBuffer> out;
    for (size_t i = 0; i < memory.size(); ++i) out.push_back({layout.buffers[i].name, memory[i]});
    return out;
  }
};

struct Fixture {
  CheckpointMap checkpoint;
  SourceModel source;
  ModelConfig config;
};

Fixture open(const std::string& model) {
  const auto folder = model_folder(model);
  auto checkpoint = CheckpointMap::open(folder);
  auto source = SourceModel::open(folder);
  auto config = read_model_config(folder);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().to_string();
  EXPECT_TRUE(source.ok()) << source.status().to_string();
  EXPECT_TRUE(config.ok()) << config.status().to_string();
  return {std::move(checkpoint).value(), std::move(source).value(), std::move(config).value()};
}

Result<PulledRank> pulled(const Fixture& f, const Spec& spec, uint32_t rank, uint64_t version) {
  PulledRank out;
  WB_ASSIGN_OR_RETURN(out.layout, lay_out(spec, f.config, f.checkpoint.table(), rank));
  std::vector<std::byte*> buffers;
  for (const BufferInfo& buffer : out.layout.buffers) {
    out.memory.emplace_back(buffer.bytes, std::byte{0xa5});
  }
  for (auto& buffer : out.memory) buffers.push_back(buffer.data());
  fill(f.checkpoint, out.layout, buffers, version, Values::kChanging);
  for (const Extra& extra : out.layout.extras) {
    if (extra.kind == ExtraKind::kZeroFill) {
      std::memset(buffers[extra.buffer] + extra.offset, 0, extra.bytes);
    }
  }
  return out;
}

void expect_agreement(const Fixture& f, const std::string& text) {
  const auto spec = parse_spec(text);
  ASSERT_TRUE(spec.ok()) << spec.status().to_string();
  for (uint32_t rank = 0; rank < spec->world(); ++rank) {
    SCOPED_TRACE(text + " rank " + std::to_string(rank));
    const auto mine = pulled(f, *spec, rank, 3);
    ASSERT_TRUE(mine.ok()) << mine.status().to_string();
    const auto expected = expect_rank(f.source, *spec, rank);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    const Verification result = verify(*expected, mine->held(), 3, Values::kChanging);
    EXPECT_TRUE(result.ok()) << result.fault;
    EXPECT_EQ(result.verified, mine->layout.piece_bytes(f.checkpoint.table()));
    // The bytes of one version are not those of the next.
    if (result.needed != 0) {
      const Verification stale = verify(*expected, mine->held(), 4, Values::kChanging);
      EXPECT_EQ(stale.verified, 0u);
    }
  }
}

TEST(Expectation, AgreesWithTheRulesForDenseDecoders) {
  for (const char* model : {"tiny-qwen3", "tiny-llama", "tiny-qwen2"}) {
    SCOPED_TRACE(model);
    const Fixture f = open(model);
    for (const char* spec : {"replicated:n=1",
                             "vllm:tp=1",
                             "vllm:tp=2",
                             "vllm:tp=4",
                             "vllm:tp=8",
                             "vllm:tp=2,dp=2",
                             "vllm:tp=2,pp=2",
                             "vllm:tp=1,pp=3",
                             "vllm:tp=1,engines=2",
                             "megatron:tp=1",
                             "megatron:tp=2",
                             "megatron:tp=4",
                             "megatron:tp=2,pp=2",
                             "megatron:tp=1,pp=2,vpp=2",
                             "megatron:tp=2,dp=2",
                             "megatron:tp=1,pp=2,layers=3/1",
                             "fsdp:shards=1",
                             "fsdp:shards=3",
                             "fsdp:shards=4",
                             "fsdp:shards=2,replicas=2",
                             "fsdp:shards=3,flat=1",
                             "fsdp:shards=7,flat=1"}) {
      expect_agreement(f, spec);
    }
  }
}

TEST(Expectation, AgreesWithTheRulesForBert) {
  const Fixture f = open("tiny-bert");
  for (const char* spec :
       {"replicated:n=1", "vllm:tp=1", "vllm:tp=4", "vllm:tp=2,dp=2", "megatron:tp=2",
        "megatron:tp=8", "megatron:tp=2,pp=2", "megatron:tp=1,pp=3", "megatron:tp=1,pp=2,vpp=2",
        "fsdp:shards=3", "fsdp:shards=5,flat=1"}) {
    expect_agreement(f, spec);
  }
}

TEST(Expectation, AgreesWithTheRulesForExperts) {
  for (const char* model : {"tiny-qwen3-moe", "tiny-deepseek-v3"}) {
    SCOPED_TRACE(model);
    const Fixture f = open(model);
    for (const char* spec :
         {"replicated:n=1", "vllm:tp=1", "vllm:tp=4", "vllm:tp=1,dp=2,ep=2", "vllm:tp=2,dp=2,ep=4",
          "vllm:tp=2,dp=2", "vllm:tp=2,pp=2", "megatron:tp=2", "megatron:tp=2,dp=2,ep=2",
          "megatron:tp=2,dp=2,ep=4,etp=1", "megatron:tp=2,pp=2,dp=2,ep=2", "fsdp:shards=3",
          "fsdp:shards=16", "fsdp:shards=3,flat=1"}) {
      // Flat parameters have one dtype; DeepSeek's correction bias is a buffer, so it is fine
      // there.
      expect_agreement(f, spec);
    }
  }
}

class Spoilt : public testing::Test {
 protected:
  void SetUp() override {
    fixture_.emplace(open("tiny-qwen3"));
    spec_ = *parse_spec("vllm:tp=4");
    rank_.emplace(*pulled(*fixture_, spec_, 3, 2));
    expected_ = *expect_rank(fixture_->source, spec_, 3);
    ASSERT_TRUE(check().ok()) << check().fault;
  }
  Verification check() const { return verify(expected_, rank_->held(), 2, Values::kChanging); }
  std::vector<std::byte>& buffer(const std::string& name) {
    for (size_t i = 0; i < rank_->memory.size(); ++i) {
      if (rank_->layout.buffers[i].name == name) return rank_->memory[i];
    }
    ADD_FAILURE() << "no buffer " << name;
    return rank_->memory[0];
  }

  std::optional<Fixture> fixture_;
  Spec spec_;
  std::optional<PulledRank> rank_;
  Expectation expected_;
};

TEST_F(Spoilt, OneBitNamesItsElement) {
  // tp 4: 2 query heads of 16 rows and one of the two K/V heads; element [33][5] is in the key.
  auto& qkv = buffer("model.layers.1.self_attn.qkv_proj.weight");
  qkv[(33 * 64 + 5) * 2] ^= std::byte{1};
  const Verification result = check();
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.wrong, 2u);
  EXPECT_EQ(result.needed, result.verified + 2);
  EXPECT_NE(result.fault.find("model.layers.1.self_attn.qkv_proj.weight, element 2117"),
            std::string::npos)
      << result.fault;
  // Rank 3 has K/V head 3 / 2 = 1, whose second row this is.
  EXPECT_NE(result.fault.find("model.layers.1.self_attn.k_proj.weight row 17, column 5"),
            std::string::npos)
      << result.fault;
}

TEST_F(Spoilt, TwoRowsInEachOthersPlace) {
  auto& down = buffer("model.layers.0.mlp.down_proj.weight");
  const size_t row = down.size() / 64;
  std::swap_ranges(down.begin(), down.begin() + static_cast<long>(row),
                   down.begin() + static_cast<long>(row));
  EXPECT_FALSE(check().ok());
  EXPECT_GT(check().wrong, row);
}

TEST_F(Spoilt, PaddingThatIsNotZero) {
  // 1000 rows padded to 1024: rank 3 has rows 768 to 999 and 24 rows of zeros.
  auto& embedding = buffer("model.embed_tokens.weight");
  EXPECT_EQ(check().padding, 24u * 64 * 2);
  embedding.back() = std::byte{1};
  EXPECT_NE(check().fault.find("padding is not zero"), std::string::npos) << check().fault;
}

TEST_F(Spoilt, ABufferTooFewTooManyTooShort) {
  auto held = rank_->held();
  const HeldBuffer gone = held.back();
  held.pop_back();
  auto result = verify(expected_, held, 2, Values::kChanging);
  EXPECT_EQ(result.fault, "the rank does not hold " + gone.name);
  held.push_back(gone);
  held.push_back({"model.extra", gone.bytes});
  result = verify(expected_, held, 2, Values::kChanging);
  EXPECT_NE(result.fault.find("model.extra"), std::string::npos);
  held.pop_back();
  held.back().bytes = held.back().bytes.first(2);
  result = verify(expected_, held, 2, Values::kChanging);
  EXPECT_FALSE(result.ok());
  EXPECT_NE(result.fault.find("bytes"), std::string::npos);
}

TEST_F(Spoilt, ValuesOfAnotherTensorOfTheSameShape) {
  buffer("model.layers.0.self_attn.o_proj.weight") =
      buffer("model.layers.1.self_attn.o_proj.weight");
  EXPECT_FALSE(check().ok());
}

}  // namespace
}  // namespace wb::cli
