// Whole models through the sharding rules: proved, and in few runs.
#include <gtest/gtest.h>

#include <algorithm>

#include "models.h"

namespace wb::test {
namespace {

struct Totals {
  uint64_t bytes = 0;
  uint64_t runs = 0;
  uint64_t reads = 0;
};

// Of a plan that is proved and moves what the receiver needs.
Totals totals_of(const World& world) {
  const Result<Plan> plan = world.plan();
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  Totals totals;
  if (!plan.ok()) return totals;
  EXPECT_EQ(world.prove(*plan).message(), "");
  for (const ReadList& list : plan->lists) {
    totals.bytes += list.bytes;
    totals.runs += list.runs.size();
    totals.reads += list.reads;
  }
  EXPECT_EQ(totals.bytes, world.receiver.layout.piece_bytes(world.table));
  return totals;
}

TEST(Qwen3, TpTwoToFourIsAboutFourteenRunsALayer) {
  const Model model = qwen3_0_6b();
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const World world = world_of(model, "megatron:tp=2", "vllm:tp=4", rank);
    const Totals totals = totals_of(world);
    EXPECT_LE(totals.runs, 28u * 14 + 3);
    // o_proj and down_proj are cut by columns: a row of each per row of the model.
    EXPECT_LE(totals.reads, 28u * (2 * 1024 + 12) + 3);
  }
}

// A column cut of a column cut is one run of all rows.
TEST(Qwen3, OProjIsOneRunOfAllRows) {
  const World world = world_of(qwen3_0_6b(), "megatron:tp=2", "vllm:tp=4", 3);
  const Result<Plan> plan = world.plan();
  ASSERT_TRUE(plan.ok());
  uint64_t found = 0;
  for (const ReadList& list : plan->lists) {
    for (const wb::Run& run : list.runs) {
      // Rows of 512 bf16 out of rows of 1024.
      found += run.count == 1024 && run.length == 1024 && run.remote_pitch == 2048 &&
               run.local_pitch == 1024;
    }
  }
  EXPECT_EQ(found, 28u);
}

// Equal layouts are read in large runs: nothing but what lies apart in memory is apart in the plan.
TEST(Qwen3, SameLayoutIsHardlyMoreThanOneRun) {
  World world = world_of(qwen3_0_6b(), "replicated:n=1", "replicated:n=1", 0);
  // Only q_norm and k_norm do not fill their 512 bytes: between them the layers are rows.
  EXPECT_LE(totals_of(world).runs, 3u);
}

TEST(Qwen3, EveryPairOfTheSpineIsProved) {
  const Model model = qwen3_0_6b();
  constexpr std::pair<const char*, const char*> kPairs[] = {
      {"megatron:tp=2", "vllm:tp=4"},           {"megatron:tp=4", "vllm:tp=2,dp=2"},
      {"megatron:tp=2,pp=2", "vllm:tp=1,dp=2"}, {"fsdp:shards=4", "vllm:tp=2"},
      {"fsdp:shards=3", "vllm:tp=4"},           {"fsdp:shards=2,replicas=2", "replicated:n=3"}};
  for (const auto& [trainer, rollout] : kPairs) {
    for (uint32_t rank = 0; rank < 2; ++rank) totals_of(world_of(model, trainer, rollout, rank));
  }
}

// Replicas of whole layouts: the shares of one receiver are even to the largest tensor.
TEST(Qwen3, ReplicasShareOneReceiversReads) {
  const Model model = qwen3_0_6b();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const World world = world_of(model, "replicated:n=4", "replicated:n=3", rank);
    const Result<Plan> plan = world.plan();
    ASSERT_TRUE(plan.ok());
    ASSERT_EQ(plan->lists.size(), 4u);
    const auto [low, high] =
        std::minmax_element(plan->lists.begin(), plan->lists.end(),
                            [](const ReadList& a, const ReadList& b) { return a.bytes < b.bytes; });
    EXPECT_LE(high->bytes - low->bytes, uint64_t{151936} * 1024 * 2);
  }
}

// Twelve layers of DeepSeek-V3: few runs although each expert is cut by columns.
TEST(DeepSeekV3, OneReceiverOfThirtyTwo) {
  const World world =
      world_of(deepseek_v3(12), "megatron:tp=8,ep=4,etp=2", "vllm:tp=4,dp=8,ep=32", 5);
  const Totals totals = totals_of(world);
  EXPECT_LE(totals.runs, 400u);
  EXPECT_GE(totals.reads, 1'000'000u) << "rows of column cuts";
}

}  // namespace
}  // namespace wb::test
