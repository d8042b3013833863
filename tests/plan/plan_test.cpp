// Who is read from: replicas in turn, balance, what is missing, bad arguments, the summary.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "oracle.h"
#include "plan/summary.h"
#include "world.h"

namespace wb::test {
namespace {

TensorTable table_of(int tensors, int64_t rows, int64_t columns) {
  std::vector<TensorInfo> infos;
  for (int t = 0; t < tensors; ++t) {
    infos.push_back(TensorInfo{"w." + std::to_string(100 + t), DType::kBF16, {rows, columns}});
  }
  return *TensorTable::make(infos);
}

// A worker with rows [begin, end) of every tensor.
OwnedWorker rows_of_all(const TensorTable& table, const std::string& name, int64_t begin,
                        int64_t end) {
  OwnedWorker worker;
  worker.name = name;
  for (uint32_t t = 0; t < table.size(); ++t) {
    const auto row = static_cast<int64_t>(table[t].bytes()) / table[t].shape[0];
    const uint32_t buffer = worker.add_buffer(static_cast<uint64_t>((end - begin) * row), 0, 3);
    worker.layout.pieces.push_back(dense_rows(table, t, begin, end, buffer, 0));
  }
  return worker;
}

// Bytes read from each source by one receiver of a checked and proved plan.
std::vector<uint64_t> loads(const World& world) {
  const Result<Plan> plan = world.plan();
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  std::vector<uint64_t> result(world.sources.size());
  if (!plan.ok()) return result;
  EXPECT_EQ(fault_of(world, *plan), "");
  EXPECT_EQ(world.prove(*plan).message(), "");
  for (const ReadList& list : plan->lists) result[list.source] = list.bytes;
  return result;
}

uint64_t spread(const std::vector<uint64_t>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *high - *low;
}

// Whole replicas: a receiver's reads are even to one box.
TEST(Replicas, ShareTheReadsOfEachReceiver) {
  for (const int replicas : {2, 4}) {
    for (uint32_t receiver = 0; receiver < 3; ++receiver) {
      World world;
      world.table = table_of(13, 6, 5);
      world.receiver_index = receiver;
      world.receiver = rows_of_all(world.table, "receiver", 0, 6);
      for (int s = 0; s < replicas; ++s) {
        world.sources.push_back(rows_of_all(world.table, "source-" + std::to_string(s), 0, 6));
      }
      EXPECT_LE(spread(loads(world)), world.table[0].bytes()) << replicas << " " << receiver;
    }
  }
}

// Receivers of equal needs begin with different replicas, so a fleet loads them evenly.
TEST(Replicas, AreTakenInAnotherOrderByEachReceiver) {
  World world;
  world.table = table_of(1, 6, 5);
  world.receiver = rows_of_all(world.table, "receiver", 0, 6);
  for (int s = 0; s < 4; ++s) {
    world.sources.push_back(rows_of_all(world.table, "source-" + std::to_string(s), 0, 6));
  }
  std::map<uint32_t, int> used;
  for (uint32_t receiver = 0; receiver < 8; ++receiver) {
    world.receiver_index = receiver;
    const Result<Plan> plan = world.plan();
    ASSERT_TRUE(plan.ok());
    ASSERT_EQ(plan->lists.size(), 1u);
    ++used[plan->lists[0].source];
  }
  for (uint32_t s = 0; s < 4; ++s) EXPECT_EQ(used[s], 2) << s;
}

// Shards with replicas of each (HSDP): inside each replica set the load is even to one box.
TEST(Replicas, OfShardsShareTheirPartsOnly) {
  World world;
  world.table = table_of(11, 8, 5);
  world.receiver = rows_of_all(world.table, "receiver", 0, 8);
  for (int s = 0; s < 4; ++s) {
    const int64_t begin = s % 2 == 0 ? 0 : 4;
    world.sources.push_back(
        rows_of_all(world.table, "source-" + std::to_string(s), begin, begin + 4));
  }
  const std::vector<uint64_t> load = loads(world);
  const uint64_t box = world.table[0].bytes() / 2;
  EXPECT_LE(spread({load[0], load[2]}), box);
  EXPECT_LE(spread({load[1], load[3]}), box);
  EXPECT_EQ(load[0] + load[2], 11 * box);
}

// Replicas that are cut differently: each box goes to the least loaded that holds it.
TEST(Replicas, CutDifferentlyStillShare) {
  World world;
  world.table = table_of(20, 6, 5);
  world.receiver = rows_of_all(world.table, "receiver", 0, 6);
  world.sources.push_back(rows_of_all(world.table, "whole", 0, 6));
  world.sources.push_back(rows_of_all(world.table, "first", 0, 2));
  world.sources.push_back(rows_of_all(world.table, "rest", 2, 6));
  const std::vector<uint64_t> load = loads(world);
  for (const uint64_t bytes : load) EXPECT_GT(bytes, 0u);
  EXPECT_LE(*std::max_element(load.begin(), load.end()), world.table.bytes() / 2);
}

TEST(Plan, OfNothingIsEmpty) {
  World world;
  world.table = table_of(2, 3, 4);
  world.receiver.name = "receiver";
  Result<Plan> plan = world.plan();
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->lists.empty());
  EXPECT_EQ(plan->bytes, 0u);
  EXPECT_TRUE(world.prove(*plan).ok());

  world.sources.emplace_back().name = "empty";
  world.sources.push_back(rows_of_all(world.table, "source", 0, 3));
  plan = world.plan();
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->lists.empty());
  EXPECT_TRUE(world.prove(*plan).ok());
}

TEST(Plan, PassesOverEmptySources) {
  World world;
  world.table = table_of(2, 3, 4);
  world.receiver = rows_of_all(world.table, "receiver", 0, 3);
  world.sources.emplace_back().name = "empty";
  world.sources.push_back(rows_of_all(world.table, "source", 0, 3));
  EXPECT_EQ(loads(world), std::vector<uint64_t>({0, world.table.bytes()}));
}

TEST(Plan, NamesTheFirstTensorThatNobodyHolds) {
  World world;
  world.table = table_of(5, 6, 5);
  world.receiver = rows_of_all(world.table, "rollout-3", 0, 6);
  EXPECT_EQ(world.plan().status().facts().tensor, "w.100") << "no source at all";

  world.sources.push_back(rows_of_all(world.table, "source", 0, 6));
  auto& pieces = world.sources[0].layout.pieces;
  pieces[1] = dense_rows(world.table, 1, 0, 4, 1, 0);
  pieces.erase(pieces.begin() + 3);
  const Status status = world.plan().status();
  EXPECT_EQ(status.code(), Code::kNotCovered);
  EXPECT_EQ(status.message(),
            "no source holds what rollout-3 needs: 80 bytes of 2 tensor(s), the first is w.101");
  EXPECT_EQ(status.facts().tensor, "w.101");
  EXPECT_EQ(status.facts().peer, "rollout-3");
}

TEST(Plan, RefusesPlacementsOutsideTheirRegions) {
  const auto code_with = [](auto change) {
    World world;
    world.table = table_of(2, 3, 4);
    world.receiver = rows_of_all(world.table, "receiver", 0, 3);
    world.sources.push_back(rows_of_all(world.table, "source", 0, 3));
    change(&world.sources[0]);
    return world.plan().status().code();
  };
  EXPECT_EQ(code_with([](OwnedWorker*) {}), Code::kOk);
  EXPECT_EQ(code_with([](OwnedWorker* w) { w->placement.pop_back(); }), Code::kInvalidArgument);
  EXPECT_EQ(code_with([](OwnedWorker* w) { w->placement[0].region = 1; }), Code::kInvalidArgument);
  EXPECT_EQ(code_with([](OwnedWorker* w) { w->placement[1].offset += 1; }), Code::kInvalidArgument);
  EXPECT_EQ(code_with([](OwnedWorker* w) { w->placement[1].offset = ~uint64_t{0}; }),
            Code::kInvalidArgument);
  EXPECT_EQ(code_with([](OwnedWorker* w) { w->region_bytes[0] = ~uint64_t{0}; }),
            Code::kInvalidArgument);
}

TEST(Plan, InputsNameEverythingThatThePlanDependsOn) {
  World world;
  world.table = table_of(2, 3, 4);
  world.receiver = rows_of_all(world.table, "receiver", 0, 3);
  world.sources.push_back(rows_of_all(world.table, "source", 0, 3));
  world.sources.push_back(rows_of_all(world.table, "source", 0, 3));
  const Digest before = world.plan()->inputs;
  const auto differs = [&](auto change) {
    World other = world;
    change(&other);
    return other.plan()->inputs != before;
  };
  EXPECT_FALSE(differs([](World* w) { w->receiver.name = "another name"; }));
  EXPECT_TRUE(differs([](World* w) { w->receiver_index = 1; }));
  EXPECT_TRUE(differs([](World* w) { w->sources.pop_back(); }));
  EXPECT_TRUE(differs([](World* w) { w->sources[1].placement[0].offset -= 1; }));
  EXPECT_TRUE(differs([](World* w) { w->receiver.region_bytes[0] += 1; }));
  EXPECT_TRUE(differs([](World* w) { w->receiver.layout.pieces.pop_back(); }));
}

TEST(Summary, CountsRunsReadsAndTheirSizes) {
  World world;
  world.table = table_of(2, 6, 5);
  world.receiver = rows_of_all(world.table, "receiver", 0, 6);
  world.sources.push_back(rows_of_all(world.table, "a", 0, 2));
  world.sources.push_back(rows_of_all(world.table, "b", 2, 6));
  Plan plan = *world.plan();
  EXPECT_EQ(summarize(plan),
            std::vector<EdgeSummary>({{0, 40, 2, 2, 20, 20}, {1, 80, 2, 2, 40, 40}}));
  plan.lists[1].runs.push_back(wb::Run{0, 0, 0, 0, 7, 3, 9, 9});
  EXPECT_EQ(summarize(plan)[1].smallest, 7u);
  EXPECT_TRUE(summarize(Plan{}).empty());
}

}  // namespace
}  // namespace wb::test
