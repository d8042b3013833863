// The fluid simulator against closed forms, and its rates against the definition of max-min
// fairness.
#include "plan/flow_network.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace wb {
namespace {

FlowHistory run(const FlowNetwork& network) {
  auto history = network.run();
  EXPECT_TRUE(history.ok()) << history.status().to_string();
  return history.ok() ? std::move(history).value() : FlowHistory();
}

NetworkFlow over(std::vector<uint32_t> resources, double bytes, uint32_t lane = 0,
                 std::vector<uint32_t> after = {}) {
  NetworkFlow flow;
  flow.bytes = bytes;
  for (const uint32_t r : resources) flow.uses.push_back({r, 1});
  flow.lane = lane;
  flow.after = std::move(after);
  return flow;
}

TEST(FlowNetwork, OneFlowGoesAtTheSpeedOfItsSlowestLink) {
  FlowNetwork net;
  net.add_lane(0);
  const auto fast = net.add_resource(100, 0), slow = net.add_resource(25, 1);
  net.add_flow(over({fast, slow}, 1000));
  const auto history = run(net);
  EXPECT_DOUBLE_EQ(history.seconds, 40);
  ASSERT_EQ(history.epochs.size(), 1u);
  EXPECT_DOUBLE_EQ(history.epochs[0].used[0], 25);
  EXPECT_DOUBLE_EQ(history.epochs[0].used[1], 25);
  EXPECT_DOUBLE_EQ(net.capacity(0), 100);
}

TEST(FlowNetwork, IncastSharesTheReceiver) {
  for (const uint32_t n : {2u, 7u, 64u}) {
    FlowNetwork net;
    net.add_lane(0);
    const auto in = net.add_resource(50, 0);
    for (uint32_t i = 0; i < n; ++i) net.add_flow(over({net.add_resource(50, 1), in}, 100));
    const auto history = run(net);
    EXPECT_NEAR(history.seconds, 100.0 * n / 50, 1e-9);
    for (const double end : history.end) EXPECT_NEAR(end, history.seconds, 1e-9);
  }
}

TEST(FlowNetwork, UnequalFlowsOfAnIncastEndOneAfterTheOther) {
  FlowNetwork net;
  net.add_lane(0);
  const auto in = net.add_resource(1, 0);
  for (const double bytes : {1.0, 2.0, 3.0}) net.add_flow(over({in}, bytes));
  // 1/3 each until 3; then 1/2 each until 5; then alone until 6.
  const auto history = run(net);
  EXPECT_NEAR(history.end[0], 3, 1e-9);
  EXPECT_NEAR(history.end[1], 5, 1e-9);
  EXPECT_NEAR(history.end[2], 6, 1e-9);
}

TEST(FlowNetwork, WhatOneFlowCannotUseTheOthersGet) {
  // Three flows into a link of 12, one of which comes through a link of 2.
  FlowNetwork net;
  net.add_lane(0);
  const auto in = net.add_resource(12, 0), narrow = net.add_resource(2, 1);
  net.add_flow(over({in, narrow}, 20));
  net.add_flow(over({in}, 50));
  net.add_flow(over({in}, 50));
  const auto history = run(net);
  EXPECT_NEAR(history.end[0], 10, 1e-9);
  EXPECT_NEAR(history.end[1], 10, 1e-9);
}

TEST(FlowNetwork, HalfDuplexIsOneResourceForBothDirections) {
  FlowNetwork net;
  net.add_lane(0);
  const auto a = net.add_resource(10, 0), b = net.add_resource(10, 0);
  net.add_flow(over({a, b}, 100));
  net.add_flow(over({b, a}, 100));
  EXPECT_NEAR(run(net).seconds, 20, 1e-9);
}

TEST(FlowNetwork, AForwardInChunksIsAPipeline) {
  // n chunks over one link, each passed on over a second one of the same speed: n + 1 chunk times.
  FlowNetwork net;
  const auto first_lane = net.add_lane(1), second_lane = net.add_lane(1);
  const auto in = net.add_resource(10, 0), inside = net.add_resource(10, 1);
  for (uint32_t chunk = 0; chunk < 8; ++chunk) {
    const auto read = net.add_flow(over({in}, 5, first_lane));
    net.add_flow(over({inside}, 5, second_lane, {read}));
  }
  EXPECT_NEAR(run(net).seconds, 9 * 0.5, 1e-9);
}

TEST(FlowNetwork, ALaneRunsSoManyAtOnceInOrder) {
  FlowNetwork net;
  const auto lane = net.add_lane(2);
  for (int i = 0; i < 5; ++i) net.add_flow(over({net.add_resource(1, 0)}, 1, lane));
  const auto history = run(net);
  EXPECT_NEAR(history.seconds, 3, 1e-9);
  EXPECT_EQ(history.begin[0], 0);
  EXPECT_EQ(history.begin[1], 0);
  EXPECT_NEAR(history.begin[2], 1, 1e-9);
  EXPECT_NEAR(history.begin[4], 2, 1e-9);
}

TEST(FlowNetwork, AFlowThatWaitsDoesNotHoldUpItsLane) {
  FlowNetwork net;
  const auto lane = net.add_lane(1), other = net.add_lane(1);
  const auto slow = net.add_flow(over({net.add_resource(1, 0)}, 10, other));
  net.add_flow(over({net.add_resource(1, 0)}, 1, lane, {slow}));
  net.add_flow(over({net.add_resource(1, 0)}, 1, lane));
  const auto history = run(net);
  EXPECT_NEAR(history.end[2], 1, 1e-9);
  EXPECT_NEAR(history.end[1], 11, 1e-9);
}

TEST(FlowNetwork, WeightsAreWhatAByteCosts) {
  // 1000 reads of one byte that cost 0.5 s each, on a link of 100 bytes/s: the reads bind.
  FlowNetwork net;
  net.add_lane(0);
  const auto link = net.add_resource(100, 0), reads = net.add_resource(1, 1);
  auto flow = over({link}, 1000);
  flow.uses.push_back({reads, 0.5});
  net.add_flow(flow);
  EXPECT_NEAR(run(net).seconds, 500, 1e-9);
}

TEST(FlowNetwork, DelaysAndFlowsWithoutBytes) {
  FlowNetwork net;
  net.add_lane(0);
  const auto link = net.add_resource(10, 0);
  auto late = over({link}, 100);
  late.delay = 3;
  const auto first = net.add_flow(late);
  NetworkFlow mark;
  mark.after = {first};
  const auto second = net.add_flow(mark);
  net.add_flow(over({link}, 10, 0, {second}));
  const auto history = run(net);
  EXPECT_NEAR(history.end[0], 13, 1e-9);
  EXPECT_NEAR(history.seconds, 14, 1e-9);
  EXPECT_EQ(run(FlowNetwork()).seconds, 0);
}

TEST(FlowNetwork, RefusesWhatCannotRun) {
  const auto refused = [](const FlowNetwork& net) {
    EXPECT_EQ(net.run().status().code(), Code::kInvalidArgument);
    return net.run().status().message();
  };
  {
    FlowNetwork net;
    net.add_lane(0);
    const auto link = net.add_resource(1, 0);
    net.add_flow(over({link}, 1, 0, {1}));
    net.add_flow(over({link}, 1, 0, {0}));
    EXPECT_EQ(refused(net), "2 flows wait for each other");
  }
  const auto with = [&](double speed, const NetworkFlow& flow) {
    FlowNetwork net;
    net.add_lane(0);
    net.add_resource(speed, 0);
    net.add_flow(flow);
    return net;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused(with(0, over({0}, 1)));
  refused(with(-1, over({0}, 1)));
  refused(with(nan, over({0}, 1)));
  refused(with(INFINITY, over({0}, 1)));
  refused(with(1, over({1}, 1)));
  refused(with(1, over({}, 1)));
  refused(with(1, over({0}, -1)));
  refused(with(1, over({0}, nan)));
  refused(with(1, over({0}, 1, 1)));
  refused(with(1, over({0}, 1, 0, {7})));
  auto weightless = over({0}, 1);
  weightless.uses[0].weight = 0;
  refused(with(1, weightless));
}

// Max-min fairness by its definition: each flow has a resource that is full and on which no other
// flow is faster; and no resource is over-full.
RC_GTEST_PROP(FlowNetworkProperty, RatesAreMaxMinFair, ()) {
  const auto n = *rc::gen::inRange<uint32_t>(1, 9);
  const auto flows = *rc::gen::inRange<uint32_t>(1, 20);
  std::vector<double> speed;
  for (uint32_t r = 0; r < n; ++r) speed.push_back(*rc::gen::inRange(1, 100));
  std::vector<std::vector<ResourceUse>> uses(flows);
  for (auto& list : uses) {
    for (uint32_t r = 0; r < n; ++r) {
      if (*rc::gen::inRange(0, 3) == 0) {
        list.push_back({r, *rc::gen::inRange(1, 4) * 0.5});
      }
    }
    if (list.empty()) list.push_back({*rc::gen::inRange<uint32_t>(0, n), 1});
  }
  // The rate of a flow in the first epoch: what a resource that never binds sees of it.
  const auto rates = [&] {
    std::vector<double> out;
    for (uint32_t measured = 0; measured < flows; ++measured) {
      FlowNetwork net;
      net.add_lane(0);
      for (uint32_t r = 0; r < n; ++r) net.add_resource(speed[r], 0);
      const auto meter = net.add_resource(1e9, 1);
      for (uint32_t f = 0; f < flows; ++f) {
        NetworkFlow flow;
        flow.bytes = 1000;
        flow.uses = uses[f];
        if (f == measured) flow.uses.push_back({meter, 1});
        net.add_flow(flow);
      }
      out.push_back(run(net).epochs[0].used[1]);
    }
    return out;
  }();
  std::vector<double> load(n);
  for (uint32_t f = 0; f < flows; ++f) {
    for (const ResourceUse& use : uses[f]) load[use.resource] += rates[f] * use.weight;
  }
  for (uint32_t r = 0; r < n; ++r) RC_ASSERT(load[r] <= speed[r] * (1 + 1e-9));
  for (uint32_t f = 0; f < flows; ++f) {
    bool held = false;
    for (const ResourceUse& use : uses[f]) {
      if (load[use.resource] < speed[use.resource] * (1 - 1e-9)) continue;
      bool fastest = true;
      for (uint32_t g = 0; g < flows; ++g) {
        for (const ResourceUse& other : uses[g]) {
          if (other.resource == use.resource && rates[g] > rates[f] * (1 + 1e-9)) fastest = false;
        }
      }
      held = held || fastest;
    }
    RC_ASSERT(held);
  }
}

}  // namespace
}  // namespace wb
