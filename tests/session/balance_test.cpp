// Receivers that know of each other share the sources evenly.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "world.h"

namespace wb::testing {
namespace {

constexpr Want kLatest{Want::Kind::kLatest, 0};

// Pulls once with each receiver, checks its bytes, and adds up what was read from each source.
std::map<std::string, uint64_t> pull_all(const World& world, std::vector<Rollout>& rollouts,
                                         uint64_t version) {
  std::map<std::string, uint64_t> load;
  for (Rollout& rollout : rollouts) {
    poison(rollout.layout, rollout.buffers);
    PullReport report;
    const Status pulled = rollout.receiver->pull(kLatest, soon(), &report);
    EXPECT_TRUE(pulled.ok()) << pulled.to_string();
    EXPECT_EQ(world.wrong(rollout, version), 0u);
    for (const SourceReport& source : report.sources) load[source.worker] += source.bytes;
  }
  return load;
}

// Where no cut is smaller than a row, the loads differ by no more than a few rows or, below the
// unit of cutting, by pieces that are placed whole.
void expect_even(const std::map<std::string, uint64_t>& load, size_t sources, uint64_t slack) {
  ASSERT_EQ(load.size(), sources);
  uint64_t least = UINT64_MAX, most = 0;
  for (const auto& [name, bytes] : load) {
    least = std::min(least, bytes);
    most = std::max(most, bytes);
  }
  EXPECT_LE(most - least, slack);
}

TEST(SessionBalance, ReceiversUseReplicasEvenlyAndFollowEachOther) {
  constexpr uint64_t kSlack = 3 * (64u << 10);
  World world(World::Wire::kFake, 1, 2048);
  const WorkerLayout all = whole(world.table);
  auto trainers = world.train({all, all, all});
  ASSERT_TRUE(trainers.ok()) << trainers.status().to_string();
  world.publish(*trainers, 1);
  std::vector<Rollout> rollouts;
  const auto join = [&](const std::string& name) {
    ReceiverOptions options;
    options.name = name;
    auto rollout = world.roll_out(all, std::move(options));
    ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
    rollouts.push_back(std::move(*rollout));
  };
  for (const char* name : {"a", "b", "c", "d"}) join(name);
  const uint64_t bytes = all.piece_bytes(world.table);

  // A receiver sees the others a moment after they came; what it reads is right before, too.
  const auto settled = [&](size_t receivers, uint64_t version) {
    const std::string wanted = "\"receivers\":" + std::to_string(receivers);
    const Deadline deadline = soon();
    while (true) {
      pull_all(world, rollouts, version);
      const bool all_know = std::all_of(rollouts.begin(), rollouts.end(), [&](const Rollout& r) {
        return r.receiver->report().find(wanted) != std::string::npos;
      });
      if (all_know || deadline.expired()) return all_know;
    }
  };
  ASSERT_TRUE(settled(4, 1)) << rollouts[0].receiver->report();
  auto load = pull_all(world, rollouts, 1);
  expect_even(load, 3, kSlack);
  uint64_t sum = 0;
  for (const auto& [name, part] : load) sum += part;
  EXPECT_EQ(sum, 4 * bytes);

  // One leaves, and one comes in its place.
  ASSERT_TRUE(rollouts.back().receiver->close(soon()).ok());
  rollouts.pop_back();
  ASSERT_TRUE(settled(3, 1)) << rollouts[0].receiver->report();
  expect_even(pull_all(world, rollouts, 1), 3, kSlack);
  join("e");
  world.publish(*trainers, 2);
  ASSERT_TRUE(settled(4, 2)) << rollouts[0].receiver->report();
  expect_even(pull_all(world, rollouts, 2), 3, kSlack);
}

// A fellow that needs what nobody holds is in trouble alone.
TEST(SessionBalance, AFellowWithoutSourcesStopsNobodyElse) {
  World world(World::Wire::kFake, 1, 64);
  const WorkerLayout half = cut_rows(world.table, 0, 2);
  auto trainers = world.train({half});
  ASSERT_TRUE(trainers.ok()) << trainers.status().to_string();
  world.publish(*trainers, 1);
  std::vector<Rollout> rollouts;
  for (const auto& [name, layout] :
       {std::pair<std::string, WorkerLayout>{"served", half}, {"starved", whole(world.table)}}) {
    ReceiverOptions options;
    options.name = name;
    auto rollout = world.roll_out(layout, std::move(options));
    ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
    rollouts.push_back(std::move(*rollout));
  }
  const Status starved = rollouts[1].receiver->pull(kLatest, soon(), nullptr);
  EXPECT_EQ(starved.code(), Code::kNotCovered) << starved.to_string();
  const Deadline deadline = soon();
  for (int pulls = 0; pulls < 5 && !deadline.expired(); ++pulls) {
    std::vector<Rollout> served;
    served.push_back(std::move(rollouts[0]));
    pull_all(world, served, 1);
    rollouts[0] = std::move(served[0]);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

// Names are meant to be unique; two that are the same cost balance and nothing else.
TEST(SessionBalance, ReceiversOfOneNameStillPullEveryByte) {
  World world(World::Wire::kFake);
  const WorkerLayout all = whole(world.table);
  auto trainers = world.train({all, all});
  ASSERT_TRUE(trainers.ok());
  world.publish(*trainers, 1);
  std::vector<Rollout> rollouts;
  for (int i = 0; i < 3; ++i) {
    ReceiverOptions options;
    options.name = i == 2 ? "other" : "same";
    auto rollout = world.roll_out(all, std::move(options));
    ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
    rollouts.push_back(std::move(*rollout));
  }
  pull_all(world, rollouts, 1);
  world.publish(*trainers, 2);
  pull_all(world, rollouts, 2);
}

}  // namespace
}  // namespace wb::testing
