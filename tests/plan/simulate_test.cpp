// Updates on small clusters whose times are known in closed form.
#include "plan/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace wb {
namespace {

constexpr uint64_t kNic = 1000;     // bytes per second
constexpr uint64_t kInside = 8000;  // per worker

// `per_host` workers on each host, each with a NIC of its own; sides on hosts of their own.
Cluster cluster_of(uint32_t sources, uint32_t receivers, uint32_t per_host,
                   bool full_duplex = true) {
  Cluster cluster;
  const auto seat = [&](uint32_t workers, std::vector<Seat>* seats) {
    for (uint32_t w = 0; w < workers; ++w) {
      if (w % per_host == 0) {
        Host host;
        host.name = "h" + std::to_string(cluster.hosts.size());
        host.nics.assign(per_host, Nic{kNic, full_duplex, 0});
        host.inside_bytes_per_second = kInside;
        cluster.hosts.push_back(host);
      }
      seats->push_back({static_cast<uint32_t>(cluster.hosts.size() - 1), w % per_host});
    }
  };
  seat(sources, &cluster.sources);
  seat(receivers, &cluster.receivers);
  return cluster;
}

Simulation played(const Cluster& cluster, const std::vector<Transfer>& transfers,
                  const Fabric& fabric = {}, const SimulationOptions& options = {}) {
  auto out = simulate_plan(cluster, fabric, transfers, options);
  EXPECT_TRUE(out.ok()) << out.status().to_string();
  return out.ok() ? std::move(out).value() : Simulation();
}

Simulation broadcast(const Cluster& cluster, const std::vector<ByteClass>& classes,
                     const std::vector<uint32_t>& groups, const Fabric& fabric = {},
                     const SimulationOptions& options = {}) {
  auto out = simulate_broadcast(cluster, fabric, classes, groups, options);
  EXPECT_TRUE(out.ok()) << out.status().to_string();
  return out.ok() ? std::move(out).value() : Simulation();
}

Transfer from_source(uint32_t to, uint32_t from, uint64_t bytes) {
  return {.to = to, .from = from, .bytes = bytes};
}
Transfer from_peer(uint32_t to, uint32_t from, uint64_t bytes, uint32_t stage = 1) {
  return {.to = to, .from_peer = true, .from = from, .stage = stage, .bytes = bytes};
}

const Usage& of(const Simulation& out, Link link) {
  const auto found = std::find_if(out.usage.begin(), out.usage.end(),
                                  [&](const Usage& each) { return each.link == link; });
  EXPECT_NE(found, out.usage.end());
  return *found;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(SimulatePlan, OneReceiverOneSource) {
  Fabric fabric;
  fabric.latency_ns = 500'000'000;
  const auto out = played(cluster_of(1, 1, 1), {from_source(0, 0, 4000)}, fabric);
  EXPECT_NEAR(out.seconds, 4.5, 1e-6);
  EXPECT_NEAR(out.receivers[0], 4.5, 1e-6);
  EXPECT_NEAR(out.sources[0], 4.5, 1e-6);
  EXPECT_NEAR(mean(of(out, Link::kRolloutIn).part), 4 / 4.5, 1e-6);
}

TEST(SimulatePlan, ManyReceiversOfOneSourceShareItsNic) {
  std::vector<Transfer> transfers;
  for (uint32_t r = 0; r < 5; ++r) transfers.push_back(from_source(r, 0, 1000));
  const auto out = played(cluster_of(1, 5, 1), transfers);
  EXPECT_NEAR(out.seconds, 5, 1e-6);
  EXPECT_NEAR(mean(of(out, Link::kTrainerOut).part), 1, 1e-6);
  EXPECT_NEAR(mean(of(out, Link::kRolloutIn).part), 0.2, 1e-6);
}

TEST(SimulatePlan, ManySourcesOfOneReceiverShareIts) {
  std::vector<Transfer> transfers;
  for (uint32_t s = 0; s < 6; ++s) transfers.push_back(from_source(0, s, 500));
  for (const uint32_t at_once : {0u, 1u, 3u}) {
    SimulationOptions options;
    options.at_once = at_once;
    EXPECT_NEAR(played(cluster_of(6, 1, 1), transfers, {}, options).seconds, 3, 1e-6);
  }
}

TEST(SimulatePlan, RotatedOrderHasNoIncastAndEqualOrderHasOne) {
  // Four receivers read 1000 bytes from each of four sources, one at a time.
  SimulationOptions options;
  options.at_once = 1;
  options.chunks = 1;
  std::vector<Transfer> rotated, equal;
  for (uint32_t r = 0; r < 4; ++r) {
    for (uint32_t i = 0; i < 4; ++i) {
      rotated.push_back(from_source(r, (r + i) % 4, 1000));
      equal.push_back(from_source(r, i, 1000));
    }
  }
  const Cluster cluster = cluster_of(4, 4, 1);
  EXPECT_NEAR(played(cluster, rotated, {}, options).seconds, 4, 1e-6);
  EXPECT_NEAR(played(cluster, equal, {}, options).seconds, 16, 1e-6);
}

TEST(SimulatePlan, AForwardIsAPipeline) {
  // Receiver 0 reads 4000 bytes and passes them on to receiver 1 on another host: 4 s and one
  // piece more.
  for (const uint32_t chunks : {1u, 4u, 16u}) {
    SimulationOptions options;
    options.chunks = chunks;
    options.at_once = 1;
    const auto out =
        played(cluster_of(1, 2, 1), {from_source(0, 0, 4000), from_peer(1, 0, 4000)}, {}, options);
    EXPECT_NEAR(out.receivers[0], 4, 1e-6);
    EXPECT_NEAR(out.receivers[1], 4 + 4.0 / chunks, 1e-6);
    EXPECT_EQ(out.from_sources[1], 0);
  }
}

TEST(SimulatePlan, AChainOfForwards) {
  SimulationOptions options;
  options.chunks = 8;
  options.at_once = 1;
  const auto out = played(
      cluster_of(1, 3, 1),
      {from_source(0, 0, 8000), from_peer(1, 0, 8000, 1), from_peer(2, 1, 8000, 2)}, {}, options);
  EXPECT_NEAR(out.seconds, 10, 1e-6);
}

TEST(SimulatePlan, HalfDuplexForwardsAtHalfTheSpeed) {
  // The receiver in the middle moves every byte in and out over one link.
  SimulationOptions options;
  options.chunks = 64;
  options.at_once = 1;
  const auto out = played(cluster_of(1, 2, 1, /*full_duplex=*/false),
                          {from_source(0, 0, 4000), from_peer(1, 0, 4000)}, {}, options);
  EXPECT_NEAR(out.seconds, 8, 8.0 / 32);
}

TEST(SimulatePlan, SharingInsideAHostDividesTheNics) {
  // Four workers of one host all need the same 4000 bytes: each reads a quarter and gets the rest
  // inside.
  std::vector<Transfer> transfers;
  for (uint32_t r = 0; r < 4; ++r) {
    transfers.push_back(from_source(r, r, 1000));
    for (uint32_t p = 1; p < 4; ++p) transfers.push_back(from_peer(r, (r + p) % 4, 1000));
  }
  SimulationOptions options;
  options.chunks = 32;
  const auto out = played(cluster_of(4, 4, 4), transfers, {}, options);
  // 1 s over the NICs; the last pieces inside take 3/32 of 1000 bytes at 8000 bytes/s.
  EXPECT_GT(out.seconds, 1);
  EXPECT_LT(out.seconds, 1.1);
  for (const double at : out.from_sources) EXPECT_NEAR(at, 1, 0.01);
}

TEST(SimulatePlan, AnOversubscribedUplinkBinds) {
  // Four sources below a switch whose uplink is one NIC wide.
  Cluster cluster = cluster_of(4, 4, 1);
  Fabric fabric;
  fabric.switches = {{"leaf", 1, kNic}, {"spine", kNoSwitch, 0}};
  fabric.switch_of_host = {0, 0, 0, 0, 1, 1, 1, 1};
  std::vector<Transfer> transfers;
  for (uint32_t r = 0; r < 4; ++r) transfers.push_back(from_source(r, r, 1000));
  EXPECT_NEAR(played(cluster, transfers, fabric).seconds, 4, 1e-6);
  fabric.switch_of_host.assign(8, 0);
  EXPECT_NEAR(played(cluster, transfers, fabric).seconds, 1, 1e-6) << "below one switch";
  fabric.switch_of_host = {0, 0, kNoSwitch, kNoSwitch, kNoSwitch, kNoSwitch, kNoSwitch, kNoSwitch};
  EXPECT_NEAR(played(cluster, transfers, fabric).seconds, 2, 1e-6) << "two of them at the core";
}

TEST(SimulatePlan, ManySmallReadsBind) {
  Transfer transfer = from_source(0, 0, 1000);
  transfer.overhead_ps = 5'000 * uint64_t{2'000'000'000};  // 5000 reads of 2 ms
  const auto out = played(cluster_of(1, 1, 1), {transfer});
  EXPECT_NEAR(out.seconds, 10, 1e-6);
  EXPECT_NEAR(mean(of(out, Link::kReading).part), 1, 1e-6);
}

TEST(SimulatePlan, InsideADomainNoNicIsUsed) {
  Cluster cluster = cluster_of(1, 1, 1);
  cluster.hosts[0].domain = cluster.hosts[1].domain = 7;
  EXPECT_NEAR(played(cluster, {from_source(0, 0, 8000)}).seconds, 1, 1e-6);
}

TEST(SimulatePlan, UsageIsConserved) {
  const Cluster cluster = cluster_of(3, 2, 1);
  const auto out =
      played(cluster, {from_source(0, 0, 700), from_source(0, 2, 1300), from_source(1, 1, 2500)});
  for (const Link link : {Link::kTrainerOut, Link::kRolloutIn}) {
    const Usage& usage = of(out, link);
    EXPECT_NEAR(mean(usage.part) * usage.capacity * out.seconds, 4500, 1e-3);
    for (const double part : usage.part) {
      EXPECT_GE(part, 0);
      EXPECT_LE(part, 1 + 1e-9);
    }
  }
}

TEST(SimulatePlan, RefusesWhatIsNotThere) {
  const Cluster cluster = cluster_of(1, 2, 1);
  const auto code = [&](const Cluster& where, const Transfer& transfer, const Fabric& fabric = {}) {
    return simulate_plan(where, fabric, std::vector<Transfer>{transfer}, {}).status().code();
  };
  EXPECT_EQ(code(cluster, from_source(2, 0, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(cluster, from_source(0, 1, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(cluster, from_peer(0, 0, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(cluster, from_peer(0, 2, 1)), Code::kInvalidArgument);
  EXPECT_EQ(code(cluster, from_peer(0, 1, 1)), Code::kInvalidArgument) << "it has nothing";
  Cluster broken = cluster;
  broken.sources[0].host = 9;
  EXPECT_EQ(code(broken, from_source(0, 0, 1)), Code::kInvalidArgument);
  broken = cluster;
  broken.receivers[1].nic = 1;
  EXPECT_EQ(code(broken, from_source(0, 0, 1)), Code::kInvalidArgument);
  broken = cluster;
  broken.hosts[0].nics[0].bytes_per_second = 0;
  EXPECT_EQ(code(broken, from_source(0, 0, 1)), Code::kInvalidArgument);
  Fabric cycle;
  cycle.switches = {{"a", 1, 0}, {"b", 0, 0}};
  EXPECT_EQ(code(cluster, from_source(0, 0, 1), cycle), Code::kInvalidArgument);
  cycle.switches = {{"a", 5, 0}};
  EXPECT_EQ(code(cluster, from_source(0, 0, 1), cycle), Code::kInvalidArgument);
  cycle.switches = {};
  cycle.switch_of_host = {3, 0, 0};
  EXPECT_EQ(code(cluster, from_source(0, 0, 1), cycle), Code::kInvalidArgument);
}

ByteClass bytes_of(uint64_t bytes, std::vector<uint32_t> holders) {
  return {bytes, std::move(holders), {0}};
}

TEST(SimulateBroadcast, WithoutGatherTheRootsNicBinds) {
  // One chain over three hosts of two NICs: 4000 bytes leave by one NIC.
  const auto out = broadcast(cluster_of(1, 6, 2), {bytes_of(4000, {0})}, {0});
  EXPECT_NEAR(out.seconds, 4, 1e-6);
  EXPECT_NEAR(mean(of(out, Link::kTrainerOut).part), 1, 1e-6);
}

TEST(SimulateBroadcast, ReceiversNicsBindWhenAHostHasFew) {
  // Two roots of 2000 bytes each; all 4000 enter every receiver by its own NIC.
  const auto out =
      broadcast(cluster_of(2, 3, 1), {bytes_of(2000, {0}), bytes_of(2000, {1})}, {0, 1});
  EXPECT_NEAR(out.seconds, 4, 1e-6);
}

TEST(SimulateBroadcast, GatherOverlapsAllButTheFirstBucket) {
  // Half of the bytes come from source 1 first: 2000 in, 4000 out, full duplex.
  SimulationOptions options;
  for (const uint32_t buckets : {1u, 4u, 32u}) {
    options.buckets = buckets;
    const auto out = broadcast(cluster_of(2, 1, 1), {bytes_of(2000, {0}), bytes_of(2000, {1})},
                               {0, 0}, {}, options);
    EXPECT_NEAR(out.seconds, 4 + 2.0 / buckets, 1e-6);
  }
}

TEST(SimulateBroadcast, WhatTheRootHoldsIsNotGathered) {
  const auto out = broadcast(cluster_of(2, 1, 1), {bytes_of(4000, {0, 1})}, {0, 0});
  EXPECT_NEAR(out.seconds, 4, 1e-6);
  EXPECT_NEAR(mean(of(out, Link::kTrainerIn).part), 0, 1e-6);
}

TEST(SimulateBroadcast, HalfDuplexRelaysAtHalfTheSpeed) {
  const auto out =
      broadcast(cluster_of(1, 3, 1, /*full_duplex=*/false), {bytes_of(4000, {0})}, {0});
  EXPECT_NEAR(out.seconds, 8, 1e-6);
}

TEST(SimulateBroadcast, RefusesGroupsOfAnotherWorld) {
  EXPECT_FALSE(simulate_broadcast(cluster_of(2, 1, 1), {}, {}, std::vector<uint32_t>{0}, {}).ok());
}

}  // namespace
}  // namespace wb
