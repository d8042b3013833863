#include "layout/side.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "layout/rules.h"
#include "layout/spec.h"
#include "rules_models.h"

namespace wb::test {
namespace {

TensorTable one_tensor(int64_t rows) {
  return *TensorTable::make({{"t", DType::kBF16, {rows, 4}}});
}

WorkerLayout rows_of(int64_t first, int64_t count) {
  WorkerLayout layout;
  layout.buffers.push_back({"b", DType::kBF16, {count, 4}, static_cast<uint64_t>(count) * 8});
  Piece piece;
  const Progression dims[] = {{first, count, 1}, {0, 4, 1}};
  piece.box = *Box::make(dims);
  piece.stride[0] = 8;
  piece.stride[1] = 2;
  layout.pieces.push_back(piece);
  return layout;
}

bool equal(const WorkerLayout& a, const WorkerLayout& b, const TensorTable& table) {
  return a.pieces == b.pieces && layout_digest(table, a) == layout_digest(table, b);
}

TEST(Side, ShardsAreOneFamilyWhateverTheirOrder) {
  const TensorTable table = one_tensor(64);
  for (const std::vector<int64_t>& order :
       {std::vector<int64_t>{0, 1, 2, 3}, {2, 0, 3, 1}, {3, 3, 1, 0, 2}}) {
    SideBuilder builder;
    for (const int64_t i : order) builder.add(rows_of(16 * i, 16));
    const Side side = builder.take();
    EXPECT_EQ(side.families.size(), 1u);
    for (uint32_t w = 0; w < order.size(); ++w) {
      EXPECT_TRUE(equal(side.layout(w), rows_of(16 * order[w], 16), table));
    }
    EXPECT_TRUE(check_side(table, side, LayoutRole::kSource).ok());
  }
}

// Every rank, of layouts of every framework.
TEST(LayOutAll, IsLayOutOfEachRank) {
  const testing::Model models[] = {
      testing::make_model(testing::tiny_llama()), testing::make_model(testing::tiny_qwen3_moe()),
      testing::make_model(testing::tiny_deepseek()), testing::make_model(testing::tiny_bert())};
  const char* specs[] = {"megatron:tp=2,pp=2,dp=2",  "megatron:tp=2,dp=2,ep=2,etp=1",
                         "fsdp:shards=3,replicas=2", "fsdp:shards=8",
                         "fsdp:shards=5,flat=1",     "vllm:tp=2,engines=3",
                         "vllm:dp=4,ep=4,engines=2", "replicated:n=3"};
  int laid_out = 0;
  for (const testing::Model& model : models) {
    for (const char* text : specs) {
      const Spec spec = *parse_spec(text);
      const auto side = lay_out_all(spec, model.config, model.table);
      if (!side.ok()) {
        // What the framework refuses is refused for some rank, in the same words.
        bool refused = false;
        for (uint32_t rank = 0; rank < spec.world() && !refused; ++rank) {
          const auto one = lay_out(spec, model.config, model.table, rank);
          refused = !one.ok() && one.status().message() == side.status().message();
        }
        EXPECT_TRUE(refused) << side.status().to_string();
        continue;
      }
      ++laid_out;
      ASSERT_EQ(side->size(), spec.world());
      EXPECT_TRUE(check_side(model.table, *side, LayoutRole::kSource).ok());
      for (uint32_t rank = 0; rank < spec.world(); ++rank) {
        const WorkerLayout one = *lay_out(spec, model.config, model.table, rank);
        EXPECT_TRUE(equal(side->layout(rank), one, model.table)) << text << " rank " << rank;
      }
    }
  }
  EXPECT_GE(laid_out, 16);
}

// Replicas are kept once; full shards of a dense model are one family.
TEST(LayOutAll, RulesStayRules) {
  const testing::Model model = testing::make_model(testing::qwen3_0_6b());
  const Side megatron =
      *lay_out_all(*parse_spec("megatron:tp=2,pp=2,dp=4"), model.config, model.table);
  EXPECT_EQ(megatron.families.size(), 4u);
  const Side fsdp =
      *lay_out_all(*parse_spec("fsdp:shards=128,replicas=2"), model.config, model.table);
  EXPECT_EQ(fsdp.members.size(), 256u);
  EXPECT_EQ(fsdp.families.size(), 1u);
}

TEST(Side, WhatIsNoShardIsAFamilyOfItsOwn) {
  SideBuilder builder;
  builder.add(rows_of(0, 16));
  builder.add(rows_of(8, 16));   // not a whole shard away
  builder.add(rows_of(16, 12));  // of another size
  EXPECT_EQ(builder.take().families.size(), 3u);
}

TEST(Side, MembersThatLeaveTheTensorAreRefused) {
  const TensorTable table = one_tensor(64);
  SideBuilder builder;
  builder.add(rows_of(0, 16));
  builder.add(rows_of(16, 16));
  Side side = builder.take();
  side.members.push_back({0, 3});
  EXPECT_TRUE(check_side(table, side, LayoutRole::kSource).ok());
  side.members.push_back({0, 4});
  EXPECT_FALSE(check_side(table, side, LayoutRole::kSource).ok());
  side.members.back() = {0, -1};
  EXPECT_FALSE(check_side(table, side, LayoutRole::kSource).ok());
  side.members.back() = {0, int64_t{1} << 62};
  EXPECT_FALSE(check_side(table, side, LayoutRole::kSource).ok());
  side.members.back() = {7, 0};
  EXPECT_FALSE(check_side(table, side, LayoutRole::kSource).ok());
}

}  // namespace
}  // namespace wb::test
