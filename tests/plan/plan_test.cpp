// Who is read from: replicas in turn, balance, what is missing, bad arguments, ends by request.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/cancel.h"
#include "oracle.h"
#include "plan/work.h"
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

// Whole replicas: a receiver's reads are even to one box, and so are those of all receivers.
TEST(Replicas, ShareTheReads) {
  for (const int replicas : {2, 4}) {
    for (const int receivers : {1, 3}) {
      World world;
      world.table = table_of(13, 6, 5);
      for (int s = 0; s < replicas; ++s) {
        world.sources.push_back(rows_of_all(world.table, "source-" + std::to_string(s), 0, 6));
      }
      std::vector<OwnedWorker> all;
      for (int r = 0; r < receivers; ++r) {
        all.push_back(rows_of_all(world.table, "receiver-" + std::to_string(r), 0, 6));
      }
      std::vector<PlanWorker> views;
      for (const OwnedWorker& worker : all) views.push_back(worker.view());
      std::vector<uint64_t> sum(world.sources.size());
      for (uint32_t r = 0; r < all.size(); ++r) {
        world.receiver = all[r];
        const Result<Plan> plan = make_plan(world.table, world.source_views(), views, r);
        ASSERT_TRUE(plan.ok()) << plan.status().to_string();
        EXPECT_EQ(fault_of(world, *plan), "");
        EXPECT_EQ(world.prove(*plan).message(), "");
        for (const ReadList& list : plan->lists) sum[list.source] += list.bytes;
      }
      EXPECT_LE(spread(sum), world.table[0].bytes()) << replicas << " " << receivers;
    }
  }
}

// Layouts that are known to be equal are looked at once, and nothing else changes.
TEST(Replicas, MayNameTheirMapping) {
  const TensorTable table = table_of(5, 6, 5);
  std::vector<OwnedWorker> workers;
  for (const char* name : {"a", "b", "c"}) workers.push_back(rows_of_all(table, name, 0, 6));
  workers.push_back(rows_of_all(table, "d", 0, 3));
  const auto planned = [&](bool named) {
    std::vector<PlanWorker> views;
    for (const OwnedWorker& worker : workers) {
      views.push_back(worker.view());
      if (named) views.back().mapping = layout_digest(table, worker.layout);
    }
    const Result<Plan> plan = make_plan(table, views, views, 3);
    EXPECT_TRUE(plan.ok()) << plan.status().to_string();
    return plan.ok() ? *plan : Plan{};
  };
  const Plan plain = planned(false), named = planned(true);
  EXPECT_EQ(plain.inputs, named.inputs);
  ASSERT_EQ(plain.lists.size(), named.lists.size());
  for (size_t i = 0; i < plain.lists.size(); ++i) {
    EXPECT_EQ(plain.lists[i].source, named.lists[i].source);
    EXPECT_EQ(plain.lists[i].runs, named.lists[i].runs);
  }
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
  EXPECT_EQ(world.plan().status().code(), Code::kInvalidArgument) << "no source at all";

  world.sources.emplace_back().name = "empty";
  world.sources.push_back(rows_of_all(world.table, "source", 0, 3));
  const Result<Plan> plan = world.plan();
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->lists.empty());
  EXPECT_EQ(plan->bytes, 0u);
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
  world.sources.push_back(rows_of_all(world.table, "source", 0, 6));
  auto& pieces = world.sources[0].layout.pieces;
  pieces[1] = dense_rows(world.table, 1, 0, 4, 1, 0);
  pieces.erase(pieces.begin() + 3);
  const Status status = world.plan().status();
  EXPECT_EQ(status.code(), Code::kNotCovered);
  EXPECT_EQ(status.message(),
            "no source holds what is needed: 80 bytes of 2 tensor(s), the first is w.101, "
            "needed by rollout-3");
  EXPECT_EQ(status.facts().tensor, "w.101");
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
  world.sources.push_back(rows_of_all(world.table, "another", 0, 3));
  const Digest before = world.plan()->inputs;
  const auto differs = [&](auto change) {
    World other = world;
    change(&other);
    return other.plan()->inputs != before;
  };
  EXPECT_FALSE(differs([](World*) {}));
  EXPECT_TRUE(differs([](World* w) { w->receiver.name = "another name"; }));
  EXPECT_TRUE(differs([](World* w) {
    w->fellows.push_back(w->receiver);
    w->fellows[0].name = "fellow";
  }));
  EXPECT_TRUE(differs([](World* w) { w->sources.pop_back(); }));
  EXPECT_TRUE(differs([](World* w) { w->sources[1].placement[0].offset -= 1; }));
  EXPECT_TRUE(differs([](World* w) { w->receiver.region_bytes[0] += 1; }));
  EXPECT_TRUE(differs([](World* w) { w->receiver.layout.pieces.pop_back(); }));
}

// However long it would take: planning and proving end when they are told to.
TEST(Plan, EndsByRequest) {
  World world;
  world.table = table_of(5, 6, 5);
  world.receiver = rows_of_all(world.table, "receiver", 0, 6);
  world.sources.push_back(rows_of_all(world.table, "source", 0, 6));
  const Result<Plan> plan = world.plan();
  ASSERT_TRUE(plan.ok());
  std::atomic<bool> flag = false;
  const CancelScope by_flag(&flag);
  EXPECT_TRUE(world.plan().ok());
  EXPECT_TRUE(world.prove(*plan).ok());
  {
    const CancelScope by_time(Deadline::after(std::chrono::hours(1)));
    EXPECT_TRUE(world.plan().ok());
    flag = true;
    EXPECT_EQ(world.plan().status().code(), Code::kCancelled);
    EXPECT_EQ(world.prove(*plan).code(), Code::kCancelled);
    flag = false;
  }
  {
    const CancelScope by_time(Deadline::after(std::chrono::seconds(0)));
    EXPECT_EQ(world.plan().status().code(), Code::kDeadline);
    EXPECT_EQ(world.prove(*plan).code(), Code::kDeadline);
  }
  EXPECT_TRUE(world.plan().ok()) << "the scope is over";
}

// The steps of one piece of work are bounded, counted or not.
TEST(Work, EndsInTheMiddle) {
  std::atomic<bool> flag = false;
  const CancelScope scope(&flag);
  Work work(1'000'000);
  EXPECT_TRUE(work.spend(10));
  flag = true;
  uint64_t spent = 0;
  while (work.spend(1)) ++spent;
  EXPECT_LT(spent, 100'000u);
  EXPECT_FALSE(work.spend(0));
  EXPECT_TRUE(work.is_exhausted());
  EXPECT_EQ(Work::exhausted("it").code(), Code::kCancelled);
  flag = false;
  EXPECT_EQ(Work::exhausted("it").code(), Code::kUnsupported);
}

}  // namespace
}  // namespace wb::test
