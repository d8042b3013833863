// divide() against all divisions of small problems, and against what proves a division optimal.
#include "plan/flow.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "plan/max_flow.h"

namespace wb::test {
namespace {

using Rng = std::mt19937_64;

uint64_t between(Rng& rng, uint64_t low, uint64_t high) {
  return std::uniform_int_distribution<uint64_t>(low, high)(rng);
}

struct Shape {
  uint32_t nodes = 4;
  uint32_t tasks = 4;
  uint64_t most = 6;          // bytes of a task
  uint64_t fastest = 1;       // speeds are 1 .. fastest
  uint64_t largest_base = 0;  // bases are 0 .. largest_base
  uint64_t unit = 1;          // amounts and bases are multiples
};

FlowProblem random_problem(Rng& rng, const Shape& shape) {
  FlowProblem problem;
  for (uint32_t n = 0; n < shape.nodes; ++n) {
    problem.nodes.push_back(
        {between(rng, 1, shape.fastest), shape.unit * between(rng, 0, shape.largest_base)});
  }
  for (uint32_t t = 0; t < shape.tasks; ++t) {
    std::set<uint32_t> options;
    const uint64_t wanted = between(rng, 1, shape.nodes);
    for (uint64_t i = 0; i < wanted; ++i) {
      options.insert(static_cast<uint32_t>(between(rng, 0, shape.nodes - 1)));
    }
    const std::vector<uint32_t> list(options.begin(), options.end());
    problem.add(shape.unit * between(rng, 1, shape.most), list);
  }
  return problem;
}

std::vector<uint64_t> loads_of(const FlowProblem& problem, const FlowDivision& division) {
  std::vector<uint64_t> loads;
  for (const auto& node : problem.nodes) loads.push_back(node.base);
  for (const FlowShare& share : division.shares) loads[share.node] += share.amount;
  return loads;
}

Ratio longest(const FlowProblem& problem, const std::vector<uint64_t>& loads) {
  Ratio longest;
  for (size_t n = 0; n < loads.size(); ++n) {
    longest = std::max(longest, Ratio{loads[n], problem.nodes[n].speed});
  }
  return longest;
}

bool equal(const Ratio& a, const Ratio& b) { return !(a < b) && !(b < a); }

// The shortest time over all divisions, by trying them all.
Ratio try_all(const FlowProblem& problem) {
  std::vector<uint64_t> loads;
  for (const auto& node : problem.nodes) loads.push_back(node.base);
  Ratio best{UINT64_MAX, 1};
  std::function<void(uint32_t, size_t, uint64_t)> place = [&](uint32_t task, size_t option,
                                                              uint64_t left) {
    if (task == problem.tasks()) {
      best = std::min(best, longest(problem, loads));
      return;
    }
    const auto options = problem.options_of(task);
    const uint32_t node = options[option];
    const bool last = option + 1 == options.size();
    for (uint64_t amount = last ? left : 0; amount <= left; ++amount) {
      loads[node] += amount;
      if (last) {
        const bool more = task + 1 < problem.tasks();
        place(task + 1, 0, more ? problem.amounts[task + 1] : 0);
      } else {
        place(task, option + 1, left - amount);
      }
      loads[node] -= amount;
    }
  };
  place(0, 0, problem.amounts.empty() ? 0 : problem.amounts[0]);
  return best;
}

// Sums, options, order; and no cycle among tasks and nodes that shares join.
void expect_sound(const FlowProblem& problem, const FlowDivision& division) {
  std::vector<uint64_t> placed(problem.tasks());
  std::vector<uint32_t> parent(problem.tasks() + problem.nodes.size());
  std::iota(parent.begin(), parent.end(), 0u);
  const auto find = [&](uint32_t v) {
    while (parent[v] != v) v = parent[v];
    return v;
  };
  for (size_t i = 0; i < division.shares.size(); ++i) {
    const FlowShare& share = division.shares[i];
    RC_ASSERT(share.task < problem.tasks());
    RC_ASSERT(share.amount > 0u);
    if (i > 0) {
      const FlowShare& before = division.shares[i - 1];
      RC_ASSERT(std::pair(before.task, before.node) < std::pair(share.task, share.node));
    }
    RC_ASSERT(std::ranges::binary_search(problem.options_of(share.task), share.node));
    placed[share.task] += share.amount;
    const uint32_t a = find(share.task), b = find(problem.tasks() + share.node);
    RC_ASSERT(a != b);
    parent[a] = b;
  }
  RC_ASSERT(placed == problem.amounts);
  RC_ASSERT(division.level.size() == problem.nodes.size());
}

RC_GTEST_PROP(Flow, NoDivisionIsFaster, (uint64_t seed)) {
  Rng rng(seed);
  for (int i = 0; i < 20; ++i) {
    const auto tasks = static_cast<uint32_t>(between(rng, 1, 3));
    const FlowProblem problem =
        random_problem(rng, {.nodes = static_cast<uint32_t>(between(rng, 1, 4)),
                             .tasks = tasks,
                             .most = tasks == 3 ? 5u : 9u,
                             .fastest = between(rng, 1, 4),
                             .largest_base = between(rng, 0, 5)});
    const FlowDivision division = divide(problem);
    expect_sound(problem, division);
    RC_ASSERT(equal(longest(problem, loads_of(problem, division)), try_all(problem)));
  }
}

// With amounts that every number of nodes divides, loads are as even as they can be exactly if no
// task has a share on a node while another of its nodes is less busy.
RC_GTEST_PROP(Flow, LoadsAreAsEvenAsTheyCanBe, (uint64_t seed)) {
  constexpr uint64_t kAllDivide = 27720;  // by 1 .. 12
  Rng rng(seed);
  for (int i = 0; i < 10; ++i) {
    const FlowProblem problem =
        random_problem(rng, {.nodes = static_cast<uint32_t>(between(rng, 1, 12)),
                             .tasks = static_cast<uint32_t>(between(rng, 0, 30)),
                             .most = 1000,
                             .largest_base = between(rng, 0, 1) * 300,
                             .unit = kAllDivide});
    const FlowDivision division = divide(problem);
    expect_sound(problem, division);
    const std::vector<uint64_t> loads = loads_of(problem, division);
    for (const FlowShare& share : division.shares) {
      for (const uint32_t other : problem.options_of(share.task)) {
        RC_ASSERT(loads[other] >= loads[share.node]);
      }
    }
    for (uint32_t n = 0; n < loads.size(); ++n) {
      RC_ASSERT(equal(division.level[n], Ratio{loads[n], 1}));
    }
  }
}

// The same for any speeds, give or take what whole bytes cost.
RC_GTEST_PROP(Flow, UnequalSpeedsAreEvenToTheByte, (uint64_t seed)) {
  Rng rng(seed);
  for (int i = 0; i < 10; ++i) {
    const FlowProblem problem =
        random_problem(rng, {.nodes = static_cast<uint32_t>(between(rng, 1, 12)),
                             .tasks = static_cast<uint32_t>(between(rng, 0, 30)),
                             .most = 1'000'000'000,
                             .fastest = 9,
                             .largest_base = between(rng, 0, 1) * 300'000'000});
    const FlowDivision division = divide(problem);
    expect_sound(problem, division);
    const std::vector<uint64_t> loads = loads_of(problem, division);
    const Ratio time = longest(problem, loads);
    // A set of nodes and the tasks that have no other: nothing can be faster than their mean.
    Ratio bound;
    for (const Ratio& level : division.level) {
      Ratio closed{0, 0};
      for (uint32_t n = 0; n < loads.size(); ++n) {
        if (division.level[n] < level) continue;
        closed.bytes += problem.nodes[n].base;
        closed.speed += problem.nodes[n].speed;
      }
      for (uint32_t t = 0; t < problem.tasks(); ++t) {
        if (std::ranges::all_of(problem.options_of(t),
                                [&](uint32_t n) { return !(division.level[n] < level); })) {
          closed.bytes += problem.amounts[t];
        }
      }
      bound = std::max(bound, closed);
    }
    RC_ASSERT(!(time < bound));
    // Each node may have taken a byte a node too much for what another could not take whole.
    const uint64_t slack = loads.size() * loads.size();
    for (uint32_t n = 0; n < loads.size(); ++n) {
      const uint64_t speed = problem.nodes[n].speed;
      RC_ASSERT(loads[n] <= bound.floor_at(speed) + slack);
      RC_ASSERT(loads[n] <= division.level[n].floor_at(speed) + slack);
      RC_ASSERT(loads[n] + slack >= division.level[n].floor_at(speed));
    }
  }
}

RC_GTEST_PROP(Flow, OrderOfTasksDoesNotMatter, (uint64_t seed)) {
  Rng rng(seed);
  FlowProblem problem =
      random_problem(rng, {.nodes = 9, .tasks = 12, .most = 1000, .fastest = 3, .largest_base = 9});
  std::vector<uint32_t> order(problem.tasks());
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), rng);
  // Tasks with equal options may exchange what they get: their sums by node may not.
  std::map<std::pair<std::vector<uint32_t>, uint32_t>, uint64_t> here, there;
  FlowProblem shuffled;
  shuffled.nodes = problem.nodes;
  for (const uint32_t t : order) shuffled.add(problem.amounts[t], problem.options_of(t));
  const auto sums = [](const FlowProblem& p, auto* into) {
    for (const FlowShare& share : divide(p).shares) {
      const auto options = p.options_of(share.task);
      (*into)[{std::vector<uint32_t>(options.begin(), options.end()), share.node}] += share.amount;
    }
  };
  sums(problem, &here);
  sums(shuffled, &there);
  RC_ASSERT(here == there);
}

TEST(Flow, NothingToDivide) {
  FlowProblem problem;
  EXPECT_TRUE(divide(problem).shares.empty());
  problem.nodes = {{1, 0}, {2, 7}};
  const FlowDivision division = divide(problem);
  EXPECT_TRUE(division.shares.empty());
  EXPECT_TRUE(equal(division.level[1], {7, 2}));
}

TEST(Flow, ABusyNodeGetsNothingMore) {
  FlowProblem problem;
  problem.nodes = {{1, 100}, {1, 0}, {1, 0}};
  problem.add(10, std::vector<uint32_t>{0, 1, 2});
  EXPECT_EQ(divide(problem).shares, (std::vector<FlowShare>{{0, 1, 5}, {0, 2, 5}}));
}

// A slow node that would round up to a byte makes everything wait for it.
TEST(Flow, ASlowNodeIsLeftOutOfWhatItCannotTakeWhole) {
  FlowProblem problem;
  problem.nodes = {{1, 0}, {1000, 0}};
  problem.add(500, std::vector<uint32_t>{0, 1});
  EXPECT_EQ(divide(problem).shares, (std::vector<FlowShare>{{0, 1, 500}}));
}

// Each task can move to the next node: relief must travel the whole chain.
TEST(Flow, ReliefTravelsAlongAChain) {
  constexpr uint32_t kNodes = 500;
  FlowProblem problem;
  problem.nodes.resize(kNodes);
  problem.add(kNodes * 10, std::vector<uint32_t>{0});
  for (uint32_t n = 0; n + 1 < kNodes; ++n) {
    problem.add(10, std::vector<uint32_t>{n, n + 1});
  }
  const std::vector<uint64_t> loads = loads_of(problem, divide(problem));
  EXPECT_EQ(loads[0], kNodes * 10);
  for (uint32_t n = 1; n < kNodes; ++n) EXPECT_EQ(loads[n], 10u);
  problem.amounts[0] = 10;
  for (const uint64_t load : loads_of(problem, divide(problem))) EXPECT_EQ(load, 10u);
}

TEST(Flow, LargeAmountsAndSpeedsDoNotOverflow) {
  FlowProblem problem;
  problem.nodes = {{uint64_t{1} << 61, 0}, {1, 0}, {(uint64_t{1} << 61) - 1, 5}};
  problem.add((uint64_t{1} << 62) - 1, std::vector<uint32_t>{0, 1, 2});
  problem.add(uint64_t{1} << 61, std::vector<uint32_t>{1, 2});
  const FlowDivision division = divide(problem);
  const std::vector<uint64_t> loads = loads_of(problem, division);
  EXPECT_EQ(loads[0] + loads[1] + loads[2], (uint64_t{3} << 61) + 4);
  EXPECT_LE(loads[1], 2u);
  EXPECT_LE(std::max(loads[0], loads[2]), (uint64_t{3} << 60) + 4);
}

TEST(MaxFlow, TellsWhoIsShort) {
  TaskGraph graph;
  graph.nodes = 3;
  graph.amount = {10, 4, 3};
  graph.begin = {0, 2, 3, 4};
  graph.node = {0, 1, 1, 2};
  MaxFlow flow(graph);
  EXPECT_FALSE(flow.run(std::vector<uint64_t>{6, 6, 100}));
  EXPECT_TRUE(flow.task_short(0));
  EXPECT_TRUE(flow.task_short(1));
  EXPECT_FALSE(flow.task_short(2));
  EXPECT_TRUE(flow.node_short(0));
  EXPECT_TRUE(flow.node_short(1));
  EXPECT_FALSE(flow.node_short(2));
  EXPECT_TRUE(flow.run(std::vector<uint64_t>{6, 8, 3}));
}

}  // namespace
}  // namespace wb::test
