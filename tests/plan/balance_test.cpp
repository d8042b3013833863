// balance(): every byte is followed, loads are counted again, and cases whose optimum is known.
#include "plan/balance.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "balance_walk.h"
#include "balance_world.h"

namespace wb::test {
namespace {

constexpr Policy kPolicies[] = {Policy::kDirect, Policy::kHost, Policy::kFanout};

Balance solve(const BalanceWorld& world, Policy policy) {
  Result<Balance> result = balance(world.classes, world.cluster, policy);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? std::move(*result) : Balance();
}

const LoadReport* load_of(const Balance& balance, Bottleneck kind) {
  for (const LoadReport& load : balance.loads) {
    if (load.kind == kind) return &load;
  }
  return nullptr;
}

// What the reports should say, from the walk: by kind, by place, bytes that load it and whether any
// of them is of the kind.
struct Expected {
  std::vector<uint64_t> bytes;
  std::vector<uint64_t> own;
  std::vector<uint64_t> speed;
};

Expected expect_nics(const BalanceWorld& world, const Walk& walk, Bottleneck kind) {
  Expected expected;
  std::vector<uint32_t> first;
  std::vector<bool> full;
  for (const Host& host : world.cluster.hosts) {
    first.push_back(static_cast<uint32_t>(expected.speed.size()));
    for (const Nic& nic : host.nics) {
      expected.speed.push_back(nic.bytes_per_second);
      full.push_back(nic.full_duplex);
    }
  }
  const size_t nics = expected.speed.size();
  std::vector<uint64_t> source_out(nics), in(nics), receiver_out(nics);
  for (size_t s = 0; s < walk.source_nic.size(); ++s) {
    const Seat& seat = world.cluster.sources[s];
    source_out[first[seat.host] + seat.nic] += walk.source_nic[s];
  }
  for (size_t r = 0; r < walk.receiver_nic_in.size(); ++r) {
    const Seat& seat = world.cluster.receivers[r];
    in[first[seat.host] + seat.nic] += walk.receiver_nic_in[r];
    receiver_out[first[seat.host] + seat.nic] += walk.receiver_nic_out[r];
  }
  expected.own = kind == Bottleneck::kSourceEgress      ? source_out
                 : kind == Bottleneck::kReceiverIngress ? in
                                                        : receiver_out;
  for (size_t n = 0; n < nics; ++n) {
    const uint64_t out = source_out[n] + receiver_out[n];
    const uint64_t one_way = kind == Bottleneck::kReceiverIngress ? in[n] : out;
    const uint64_t bytes = full[n] ? one_way : out + in[n];
    expected.bytes.push_back(expected.own[n] > 0 ? bytes : 0);
  }
  return expected;
}

Expected expect_inside(const BalanceWorld& world, const Walk& walk) {
  Expected expected;
  for (size_t s = 0; s < walk.source_inside.size(); ++s) {
    expected.bytes.push_back(walk.source_inside[s]);
    expected.speed.push_back(
        world.cluster.hosts[world.cluster.sources[s].host].inside_bytes_per_second);
  }
  for (size_t r = 0; r < walk.receiver_inside_in.size(); ++r) {
    expected.bytes.push_back(std::max(walk.receiver_inside_in[r], walk.receiver_inside_out[r]));
    expected.speed.push_back(
        world.cluster.hosts[world.cluster.receivers[r].host].inside_bytes_per_second);
  }
  expected.own = expected.bytes;
  return expected;
}

uint64_t nanoseconds(uint64_t bytes, uint64_t speed) {
  return (bytes * 1'000'000'000 + speed - 1) / speed;
}

std::string check_reports(const BalanceWorld& world, const Balance& balance, const Walk& walk) {
  uint64_t slowest = 0;
  std::vector<Bottleneck> slowest_kinds;
  for (const Bottleneck kind : {Bottleneck::kSourceEgress, Bottleneck::kReceiverIngress,
                                Bottleneck::kReceiverEgress, Bottleneck::kInsideHost}) {
    const Expected expected = kind == Bottleneck::kInsideHost ? expect_inside(world, walk)
                                                              : expect_nics(world, walk, kind);
    uint64_t longest = 0;
    for (size_t i = 0; i < expected.bytes.size(); ++i) {
      longest = std::max(longest, nanoseconds(expected.bytes[i], expected.speed[i]));
    }
    const LoadReport* load = load_of(balance, kind);
    if ((load == nullptr) != (longest == 0)) return "a report is missing or too much";
    if (load == nullptr) continue;
    if (load->nic_bytes != expected.bytes) return "bytes differ from those moved";
    if (load->largest != load->nic_bytes[load->nic]) return "largest is of another place";
    if (nanoseconds(load->largest, expected.speed[load->nic]) != longest) return "not the slowest";
    if (load->bound > load->largest || load->bound == 0) return "bound is out of range";
    if (longest > slowest) slowest_kinds.clear();
    slowest = std::max(slowest, longest);
    if (longest == slowest) slowest_kinds.push_back(kind);
  }
  if (balance.nanoseconds != slowest) return "nanoseconds are not those of what binds";
  if (slowest > 0 && std::ranges::count(slowest_kinds, balance.binds) == 0) return "binds is wrong";
  std::vector<uint64_t> sent = walk.source_nic;
  for (size_t s = 0; s < sent.size(); ++s) sent[s] += walk.source_inside[s];
  if (balance.source_bytes != sent) return "source_bytes";
  if (balance.receiver_in != walk.receiver_nic_in) return "receiver_in";
  if (balance.receiver_out != walk.receiver_nic_out) return "receiver_out";
  return "";
}

RC_GTEST_PROP(Balance, EveryByteGoesWhereTheContractSays, (uint64_t seed)) {
  std::mt19937_64 rng(seed);
  const BalanceWorld world = random_world(rng, random_kind(rng));
  for (const Policy policy : kPolicies) {
    const Balance balance = solve(world, policy);
    RC_ASSERT(balance.policy == policy);
    const Walk walked = walk(world, balance);
    RC_ASSERT(walked.wrong == "");
    RC_ASSERT(check_reports(world, balance, walked) == "");
  }
}

RC_GTEST_PROP(Balance, FewCuts, (uint64_t seed)) {
  std::mt19937_64 rng(seed);
  const BalanceWorld world = random_world(rng, random_kind(rng));
  size_t carriers = 0;
  for (const Host& host : world.cluster.hosts) carriers += 2 * host.nics.size();
  const size_t workers = world.cluster.sources.size() + 2 * world.cluster.receivers.size();
  for (const Policy policy : {Policy::kDirect, Policy::kHost}) {
    const Walk walked = walk(world, solve(world, policy));
    RC_ASSERT(walked.wrong == "");
    // One less than there are nodes, over carriers and again over the workers that share them; and
    // those inside hosts.
    RC_ASSERT(walked.cuts <= carriers + 2 * workers);
  }
}

RC_GTEST_PROP(Balance, OrderOfClassesDoesNotMatter, (uint64_t seed)) {
  std::mt19937_64 rng(seed);
  const BalanceWorld world = random_world(rng, random_kind(rng));
  std::vector<size_t> order(world.classes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), rng);
  BalanceWorld shuffled{world.cluster, {}};
  for (const size_t c : order) shuffled.classes.push_back(world.classes[c]);
  const auto text = [](const ClassDivision& division) {
    std::vector<uint64_t> out;
    const auto add = [&](const std::vector<Amount>& list) {
      for (const Amount& amount : list) out.insert(out.end(), {amount.worker, amount.bytes});
      out.push_back(UINT64_MAX);
    };
    for (const Copy& copy : division.copies) {
      add(copy.from);
      add(copy.first);
      add(copy.senders);
      out.insert(out.end(), copy.members.begin(), copy.members.end());
      for (const Entry& entry : copy.entries) {
        add(entry.at);
        out.insert(out.end(), entry.members.begin(), entry.members.end());
      }
    }
    return out;
  };
  for (const Policy policy : kPolicies) {
    const Balance a = solve(world, policy), b = solve(shuffled, policy);
    for (size_t i = 0; i < order.size(); ++i) {
      RC_ASSERT(text(b.classes[i]) == text(a.classes[order[i]]));
    }
  }
}

RC_GTEST_PROP(Balance, AutoIsTheFirstThatNoOtherBeatsClearly, (uint64_t seed)) {
  std::mt19937_64 rng(seed);
  const BalanceWorld world = random_world(rng, random_kind(rng));
  const Balance chosen = solve(world, Policy::kAuto);
  RC_ASSERT(chosen.policy != Policy::kAuto);
  RC_ASSERT(chosen.nanoseconds == solve(world, chosen.policy).nanoseconds);
  for (const Policy policy : kPolicies) {
    const uint64_t other = solve(world, policy).nanoseconds;
    if (policy < chosen.policy) {
      RC_ASSERT(chosen.nanoseconds < other);
    } else {
      RC_ASSERT(static_cast<double>(other) >= 0.98 * static_cast<double>(chosen.nanoseconds));
    }
  }
}

// --- cases whose optimum is known ---

using List = std::vector<uint32_t>;

TEST(Balance, NothingToDo) {
  const Balance balance = solve({}, Policy::kAuto);
  EXPECT_EQ(balance.policy, Policy::kDirect);
  EXPECT_TRUE(balance.loads.empty());
  EXPECT_EQ(balance.nanoseconds, 0u);
}

// Two trainers, the second on a host with a receiver that is busy with bytes of a third.
BalanceWorld busy_nic(bool full_duplex) {
  BalanceWorld world;
  for (int h = 0; h < 4; ++h) world.cluster.hosts.push_back(host_with(1, 1, full_duplex));
  world.cluster.sources = {{0, 0}, {1, 0}, {2, 0}};
  world.cluster.receivers = {{1, 0}, {3, 0}};
  world.classes = {{100, {0, 1}, {1}}, {60, {2}, {0}}};
  return world;
}

TEST(Balance, AHalfDuplexNicSendsLessWhileItReceives) {
  const Balance half = solve(busy_nic(false), Policy::kDirect);
  EXPECT_EQ(half.source_bytes, (std::vector<uint64_t>{80, 20, 60}));
  EXPECT_EQ(load_of(half, Bottleneck::kSourceEgress)->nic_bytes,
            (std::vector<uint64_t>{80, 80, 60, 0}));
  const Balance full = solve(busy_nic(true), Policy::kDirect);
  EXPECT_EQ(full.source_bytes, (std::vector<uint64_t>{50, 50, 60}));
}

// Both what the NIC of the middle sends and what it receives are to be divided: one flow.
TEST(Balance, OneNicForASourceAndAReceiverIsOneFlow) {
  BalanceWorld world;
  world.cluster.hosts = {host_with(2, 1, false), host_with(1, 1, false), host_with(1, 1, false),
                         host_with(1, 1, false)};
  world.cluster.sources = {{0, 0}, {1, 0}, {2, 0}};
  world.cluster.receivers = {{0, 0}, {0, 1}, {3, 0}};
  world.classes = {{300, {2}, {0, 1}},   // enters host 0 by either of its NICs
                   {300, {0, 1}, {2}}};  // leaves NIC 0 of host 0, or host 1
  const Balance balance = solve(world, Policy::kHost);
  EXPECT_EQ(load_of(balance, Bottleneck::kReceiverIngress)->nic_bytes,
            (std::vector<uint64_t>{200, 200, 0, 0, 300}));
  EXPECT_EQ(load_of(balance, Bottleneck::kSourceEgress)->nic_bytes,
            (std::vector<uint64_t>{200, 0, 200, 300, 0}));
}

TEST(Balance, WorkersThatShareANicShareItsPart) {
  BalanceWorld world;
  world.cluster.hosts = {host_with(1, 2), host_with(1, 1), host_with(1, 9)};
  world.cluster.sources = {{0, 0}, {0, 0}, {1, 0}};
  world.cluster.receivers = {{2, 0}, {2, 0}};
  world.classes = {{600, {0, 1, 2}, {0, 1}}};
  const Balance host = solve(world, Policy::kHost);
  EXPECT_EQ(host.source_bytes, (std::vector<uint64_t>{200, 200, 200}));
  EXPECT_EQ(host.receiver_in, (std::vector<uint64_t>{300, 300}));
  EXPECT_EQ(host.nanoseconds, 200'000'000'000u);
  EXPECT_EQ(host.binds, Bottleneck::kSourceEgress);
}

TEST(Balance, AHolderOnTheSameHostIsReadWithoutANic) {
  BalanceWorld world;
  world.cluster.hosts = {host_with(1, 1), host_with(1, 1), host_with(1, 1)};
  world.cluster.sources = {{0, 0}, {1, 0}};
  world.cluster.receivers = {{0, 0}, {2, 0}};
  world.classes = {{100, {0, 1}, {0, 1}}};
  for (const Policy policy : kPolicies) {
    const Balance balance = solve(world, policy);
    EXPECT_EQ(balance.receiver_in, (std::vector<uint64_t>{0, 100}));
    EXPECT_EQ(load_of(balance, Bottleneck::kSourceEgress)->nic_bytes,
              (std::vector<uint64_t>{50, 50, 0}));
    EXPECT_EQ(balance.source_bytes, (std::vector<uint64_t>{150, 50}));
    EXPECT_EQ(walk(world, balance).wrong, "");
  }
  // Hosts of one domain are one host.
  world.cluster.hosts[1].domain = world.cluster.hosts[2].domain = 5;
  const Balance balance = solve(world, Policy::kDirect);
  EXPECT_EQ(load_of(balance, Bottleneck::kSourceEgress), nullptr);
  EXPECT_EQ(balance.source_bytes, (std::vector<uint64_t>{100, 100}));
  EXPECT_EQ(balance.binds, Bottleneck::kInsideHost);
}

// Local holders first: of two trainers that could serve both, each serves its own host.
TEST(Balance, LocalPairsAreFilledFirst) {
  BalanceWorld world;
  for (int h = 0; h < 3; ++h) world.cluster.hosts.push_back(host_with(2, 1));
  world.cluster.sources = {{0, 0}, {1, 0}};
  world.cluster.receivers = {{0, 1}, {1, 1}, {2, 0}};
  world.classes = {{90, {0, 1}, {0, 1, 2}}};
  for (const Policy policy : kPolicies) {
    const Balance balance = solve(world, policy);
    EXPECT_EQ(balance.source_bytes, (std::vector<uint64_t>{135, 135}));
    EXPECT_EQ(balance.receiver_in, (std::vector<uint64_t>{0, 0, 90}));
  }
}

BalanceWorld one_trainer_four_hosts(bool full_duplex, uint32_t trainers) {
  BalanceWorld world;
  List all;
  for (uint32_t s = 0; s < trainers; ++s) {
    world.cluster.sources.push_back({s, 0});
    world.cluster.hosts.push_back(host_with(1, 10, full_duplex));
    all.push_back(s);
  }
  for (uint32_t h = 0; h < 4; ++h) {
    world.cluster.receivers.push_back({trainers + h, 0});
    world.cluster.hosts.push_back(host_with(1, 10, full_duplex));
  }
  world.classes = {{1200, all, {0, 1, 2, 3}}};
  return world;
}

TEST(Balance, FanoutRelievesATrainerThatBinds) {
  const BalanceWorld world = one_trainer_four_hosts(true, 1);
  const Balance direct = solve(world, Policy::kDirect);
  EXPECT_EQ(direct.source_bytes, (std::vector<uint64_t>{4800}));
  EXPECT_EQ(direct.binds, Bottleneck::kSourceEgress);
  const Balance fanout = solve(world, Policy::kAuto);
  EXPECT_EQ(fanout.policy, Policy::kFanout);
  EXPECT_EQ(fanout.source_bytes, (std::vector<uint64_t>{1200}));
  EXPECT_EQ(fanout.receiver_in, (std::vector<uint64_t>{1200, 1200, 1200, 1200}));
  EXPECT_EQ(fanout.receiver_out, (std::vector<uint64_t>{900, 900, 900, 900}));
  EXPECT_EQ(fanout.nanoseconds, 120'000'000'000u);
}

TEST(Balance, FanoutIsNotUsedWhereIngressBinds) {
  EXPECT_EQ(solve(one_trainer_four_hosts(true, 4), Policy::kAuto).policy, Policy::kDirect);
  const BalanceWorld half = one_trainer_four_hosts(false, 4);
  EXPECT_EQ(solve(half, Policy::kAuto).policy, Policy::kDirect);
  EXPECT_EQ(solve(half, Policy::kFanout).nanoseconds, 210'000'000'000u);
}

TEST(Balance, AHostIsEnteredOverAllItsNics) {
  BalanceWorld world;
  world.cluster.hosts = {host_with(4, 1), host_with(4, 1)};
  for (uint32_t n = 0; n < 4; ++n) {
    world.cluster.sources.push_back({0, n});
    world.cluster.receivers.push_back({1, n});
  }
  world.classes = {{400, {0, 1, 2, 3}, {0, 1, 2, 3}}};
  const Balance host = solve(world, Policy::kAuto);
  EXPECT_EQ(host.policy, Policy::kHost);
  EXPECT_EQ(host.receiver_in, (std::vector<uint64_t>{100, 100, 100, 100}));
  EXPECT_EQ(load_of(host, Bottleneck::kInsideHost)->largest, 300u);
  EXPECT_EQ(load_of(host, Bottleneck::kInsideHost)->bound, 300u);
  // Inside slower than the NICs: not worth it.
  world.cluster.hosts[1].inside_bytes_per_second = 1;
  world.cluster.hosts[1].nics = std::vector<Nic>(4, Nic{2, true, 0});
  world.cluster.hosts[0].nics = world.cluster.hosts[1].nics;
  const Balance direct = solve(world, Policy::kAuto);
  EXPECT_EQ(direct.policy, Policy::kDirect);
  EXPECT_EQ(solve(world, Policy::kHost).binds, Bottleneck::kInsideHost);
}

// Receiver 0 is busy receiving what only it needs, so shared bytes enter by receiver 1; but it is
// as good a sender as the others.
TEST(Balance, ASenderNeedNotBeWhereTheByteEntered) {
  BalanceWorld world;
  world.cluster.hosts = {host_with(4, 1), host_with(2, 1), host_with(2, 1)};
  world.cluster.sources = {{0, 0}, {0, 1}, {0, 2}, {0, 3}};
  world.cluster.receivers = {{1, 0}, {1, 1}, {2, 0}, {2, 1}};
  world.classes = {{1000, {0, 1, 2, 3}, {0, 1, 2, 3}}, {1000, {0, 1, 2, 3}, {0}}};
  const Balance fanout = solve(world, Policy::kFanout);
  EXPECT_EQ(fanout.receiver_in, (std::vector<uint64_t>{1000, 1000, 500, 500}));
  EXPECT_EQ(fanout.receiver_out, (std::vector<uint64_t>{250, 250, 250, 250}));
  const Walk walked = walk(world, fanout);
  EXPECT_EQ(walked.wrong, "");
  EXPECT_EQ(walked.receiver_nic_out, fanout.receiver_out);
}

// --- what is refused ---

BalanceWorld small() {
  BalanceWorld world;
  world.cluster.hosts = {host_with(2, 1), host_with(2, 1)};
  world.cluster.hosts[1].name = "node-1";
  world.cluster.sources = {{0, 0}, {0, 1}};
  world.cluster.receivers = {{1, 0}, {1, 1}};
  world.classes = {{10, {0, 1}, {0, 1}}, {5, {1}, {1}}};
  return world;
}

void expect_refused(const BalanceWorld& world, const std::string& sentence) {
  const Result<Balance> result = balance(world.classes, world.cluster, Policy::kAuto);
  ASSERT_FALSE(result.ok()) << sentence;
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  EXPECT_NE(result.status().message().find(sentence), std::string::npos)
      << result.status().message();
}

TEST(Balance, RefusesClassesThatAreNone) {
  ASSERT_TRUE(balance(small().classes, small().cluster, Policy::kAuto).ok());
  BalanceWorld world = small();
  world.classes[1].holders.clear();
  expect_refused(world, "class 1 has no holder");
  world = small();
  world.classes[0].needers.clear();
  expect_refused(world, "class 0 has no needer");
  world = small();
  world.classes[0].bytes = 0;
  expect_refused(world, "class 0 has no bytes");
  world = small();
  world.classes[0].holders = {0, 2};
  expect_refused(world, "class 0 names holder 2 of 2");
  world = small();
  world.classes[0].needers = {1, 0};
  expect_refused(world, "class 0 lists its needers out of order");
  world.classes[0].needers = {1, 1};
  expect_refused(world, "class 0 lists its needers out of order");
}

TEST(Balance, RefusesSumsThatAreTooLarge) {
  BalanceWorld world = small();
  world.classes[0].bytes = uint64_t{1} << 61;
  expect_refused(world, "needed bytes sum to 2^62 or more");
  world.classes[0].bytes = UINT64_MAX;
  expect_refused(world, "needed bytes sum to 2^62 or more");
  world.classes[0].bytes = (uint64_t{1} << 61) - 3;
  EXPECT_TRUE(balance(world.classes, world.cluster, Policy::kAuto).ok());
  world.cluster.hosts[0].nics[1].bytes_per_second = uint64_t{1} << 61;
  expect_refused(world, "speeds of the cluster sum to 2^62 or more");
  world.cluster.hosts[0].nics[1].bytes_per_second = UINT64_MAX;
  expect_refused(world, "speeds of the cluster sum to 2^62 or more");
}

TEST(Balance, RefusesClustersThatAreNone) {
  BalanceWorld world = small();
  world.cluster.hosts[1].nics[1].bytes_per_second = 0;
  expect_refused(world, "NIC 1 of host node-1 has speed 0");
  world = small();
  world.cluster.hosts[1].inside_bytes_per_second = 0;
  expect_refused(world, "inside of host node-1 has speed 0");
  world = small();
  world.cluster.receivers[1].nic = 2;
  expect_refused(world, "receiver 1 sits on NIC 2 of host node-1, which has 2");
  world = small();
  world.cluster.sources[0].host = 2;
  expect_refused(world, "source 0 sits on host 2 of 2");
  EXPECT_FALSE(balance(small().classes, small().cluster, static_cast<Policy>(9)).ok());
}

TEST(Balance, PoliciesHaveNames) {
  EXPECT_EQ(policy_name(Policy::kDirect), "direct");
  EXPECT_EQ(policy_name(Policy::kAuto), "auto");
  EXPECT_EQ(policy_name(static_cast<Policy>(9)), "unknown");
}

}  // namespace
}  // namespace wb::test
