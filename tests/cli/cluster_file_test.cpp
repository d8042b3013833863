#include "cli/cluster_file.h"

#include <gtest/gtest.h>

#include <string>

namespace wb::cli {
namespace {

constexpr char kNic[] = R"({"speed":"400Gb/s"})";

// A file with one group of hosts per side; each part can be replaced.
struct Parts {
  std::string hosts =
      R"([{"name":"t","count":2,"nics":[{"speed":"400Gb/s","count":8}],"inside":"450GB/s"},
          {"name":"r","nics":[{"speed":"100Gb/s","duplex":"half"}],"inside":"20GB/s"}])";
  std::string trainer = R"([{"host":"t","per_host":4}])";
  std::string rollout = R"([{"host":"r","per_host":2}])";
  std::string more;
  std::string text() const {
    return R"({"hosts":)" + hosts + R"(,"trainer":)" + trainer + R"(,"rollout":)" + rollout + more +
           "}";
  }
};

ClusterFile parsed(const Parts& parts, uint32_t trainers = 8, uint32_t receivers = 2) {
  auto file = parse_cluster(parts.text(), trainers, receivers);
  EXPECT_TRUE(file.ok()) << file.status().to_string();
  return file.ok() ? std::move(file).value() : ClusterFile();
}

std::string refused(const std::string& text, uint32_t trainers = 8, uint32_t receivers = 2) {
  const auto file = parse_cluster(text, trainers, receivers);
  EXPECT_FALSE(file.ok()) << text;
  EXPECT_EQ(file.status().code(), Code::kBadData) << text;
  return file.status().message();
}

void expect_refused(const Parts& parts, const std::string& word) {
  EXPECT_NE(refused(parts.text()).find(word), std::string::npos)
      << refused(parts.text()) << " does not have " << word;
}

TEST(ClusterFile, HostsNicsAndSeats) {
  const auto file = parsed({});
  ASSERT_EQ(file.cluster.hosts.size(), 3u);
  EXPECT_EQ(file.cluster.hosts[1].name, "t-1");
  EXPECT_EQ(file.cluster.hosts[0].nics.size(), 8u);
  EXPECT_EQ(file.cluster.hosts[0].nics[0].bytes_per_second, 50'000'000'000u);
  EXPECT_TRUE(file.cluster.hosts[0].nics[0].full_duplex);
  EXPECT_EQ(file.cluster.hosts[0].inside_bytes_per_second, 450'000'000'000u);
  EXPECT_FALSE(file.cluster.hosts[2].nics[0].full_duplex);
  EXPECT_EQ(file.cluster.hosts[0].domain, 0u);
  ASSERT_EQ(file.cluster.sources.size(), 8u);
  // Four workers on eight NICs: every second one.
  EXPECT_EQ(file.cluster.sources[3].nic, 6u);
  EXPECT_EQ(file.cluster.sources[4].host, 1u);
  EXPECT_EQ(file.cluster.sources[4].nic, 0u);
  ASSERT_EQ(file.cluster.receivers.size(), 2u);
  EXPECT_EQ(file.cluster.receivers[1].host, 2u);
  EXPECT_FALSE(file.read_ns.has_value());
}

TEST(ClusterFile, SwitchesDomainsAndConstants) {
  Parts parts;
  parts.hosts = R"([{"name":"t","count":2,"nics":[)" + std::string(kNic) +
                R"(],"inside":"1GB/s","domain":"rack","switch":"leaf"},
                {"name":"r","nics":[)" +
                kNic + R"(],"inside":"1GB/s","domain":"rack"}])";
  parts.more =
      R"(,"switches":[{"name":"leaf","uplink":"1.6Tb/s","parent":"spine"},{"name":"spine"}],
                  "read_ns":300,"latency_ns":5000)";
  const auto file = parsed(parts);
  ASSERT_EQ(file.fabric.switches.size(), 2u);
  EXPECT_EQ(file.fabric.switches[0].parent, 1u);
  EXPECT_EQ(file.fabric.switches[0].uplink_bytes_per_second, 200'000'000'000u);
  EXPECT_EQ(file.fabric.switches[1].parent, kNoSwitch);
  EXPECT_EQ(file.fabric.switch_of_host, (std::vector<uint32_t>{0, 0, kNoSwitch}));
  EXPECT_EQ(file.cluster.hosts[0].domain, 1u);
  EXPECT_EQ(file.cluster.hosts[2].domain, 1u);
  EXPECT_EQ(file.read_ns, 300u);
  EXPECT_EQ(file.fabric.latency_ns, 5000u);
}

TEST(ClusterFile, Speeds) {
  const auto speed = [](const std::string& text) {
    Parts parts;
    parts.hosts =
        R"([{"name":"t","count":2,"nics":[{"speed":")" + text +
        R"("}],"inside":"1GB/s"},{"name":"r","nics":[{"speed":"1GB/s"}],"inside":"1GB/s"}])";
    auto file = parse_cluster(parts.text(), 8, 2);
    return file.ok() ? file->cluster.hosts[0].nics[0].bytes_per_second : 0;
  };
  EXPECT_EQ(speed("400Gb/s"), 50'000'000'000u);
  EXPECT_EQ(speed("12.5 GB/s"), 12'500'000'000u);
  EXPECT_EQ(speed("0.001MB/s"), 1000u);
  EXPECT_EQ(speed("1000TB/s"), 1'000'000'000'000'000u);
  for (const char* text : {"", "400", "Gb/s", "0Gb/s", "0.000GB/s", "-1Gb/s", "4e2Gb/s", "400gb/s",
                           "400Gbps", ".5GB/s", "1.GB/s", "1.2345GB/s", "1..2GB/s", "2000TB/s",
                           "99999999999999999999999GB/s", "1 GB/s x", "1  GB/s", "0x10GB/s"}) {
    EXPECT_EQ(speed(text), 0u) << text;
  }
}

TEST(ClusterFile, NamesTheMemberAtFault) {
  const auto with_hosts = [](const std::string& hosts) {
    Parts parts;
    parts.hosts = hosts;
    return parts;
  };
  const auto with_more = [](const std::string& more) {
    Parts parts;
    parts.more = more;
    return parts;
  };
  const auto with_trainer = [](const std::string& trainer) {
    Parts parts;
    parts.trainer = trainer;
    return parts;
  };
  const std::string nic = kNic;
  expect_refused(with_more(R"(,"racks":[])"), "unknown member 'racks'");
  expect_refused(with_more(R"(,"hosts":[])"), "'hosts' is there twice");
  expect_refused(with_more(R"(,"read_ns":-1)"), "cluster.read_ns");
  expect_refused(with_more(R"(,"latency_ns":1.5)"), "cluster.latency_ns");
  expect_refused(with_more(R"(,"latency_ns":18446744073709551616)"), "cluster.latency_ns");
  expect_refused(with_hosts("[]"), "cluster.hosts");
  expect_refused(with_hosts("{}"), "cluster.hosts");
  expect_refused(with_hosts("[7]"), "hosts[0]");
  expect_refused(with_hosts(R"([{"name":"t","nics":[)" + nic + R"(]}])"), "inside is missing");
  expect_refused(with_hosts(R"([{"name":"t","inside":"1GB/s"}])"), "nics is missing");
  expect_refused(with_hosts(R"([{"name":"t","nics":[],"inside":"1GB/s"}])"), "hosts[0].nics");
  expect_refused(with_hosts(R"([{"name":"","nics":[)" + nic + R"(],"inside":"1GB/s"}])"),
                 "hosts[0].name");
  expect_refused(with_hosts(R"([{"name":"t","nics":[{"speed":"0Gb/s"}],"inside":"1GB/s"}])"),
                 "hosts[0].nics[0].speed: a speed of zero");
  expect_refused(with_hosts(R"([{"name":"t","nics":[)" + nic + R"(],"inside":"0GB/s"}])"),
                 "hosts[0].inside: a speed of zero");
  expect_refused(
      with_hosts(R"([{"name":"t","nics":[{"speed":"1Gb/s","duplex":"both"}],"inside":"1GB/s"}])"),
      "nics[0].duplex");
  expect_refused(
      with_hosts(R"([{"name":"t","nics":[{"speed":"1Gb/s","count":65}],"inside":"1GB/s"}])"),
      "nics[0].count");
  expect_refused(
      with_hosts(R"([{"name":"t","count":65537,"nics":[)" + nic + R"(],"inside":"1GB/s"}])"),
      "hosts[0].count");
  expect_refused(
      with_hosts(R"([{"name":"t","nics":[)" + nic + R"(],"inside":"1GB/s","switch":"leaf"}])"),
      "no switch 'leaf'");
  const std::string host = R"({"name":"t","nics":[)" + nic + R"(],"inside":"1GB/s"})";
  expect_refused(with_hosts("[" + host + "," + host + "]"), "a second host 't'");
  expect_refused(with_trainer(R"([{"host":"x"}])"), "no host 'x'");
  expect_refused(with_trainer(R"([{"host":"t-0","nic":8}])"), "trainer[0].nic");
  expect_refused(with_trainer(R"([{"host":"t","per_host":3}])"), "6 seats for 8 workers");
  expect_refused(with_trainer(R"([{"host":"t","per_host":5}])"), "more than 8 seats");
  expect_refused(with_trainer("[]"), "cluster.trainer");
}

TEST(ClusterFile, SwitchesInACycle) {
  const auto with = [](const std::string& switches) {
    Parts parts;
    parts.more = R"(,"switches":)" + switches;
    return parts;
  };
  expect_refused(with(R"([{"name":"a","parent":"a"}])"), "above each other");
  expect_refused(with(R"([{"name":"a","parent":"b"},{"name":"b","parent":"c"},
                          {"name":"c","parent":"a"}])"),
                 "above each other");
  expect_refused(with(R"([{"name":"x"},{"name":"y","parent":"a"},{"name":"a","parent":"b"},
                          {"name":"b","parent":"a"}])"),
                 "above each other");
  expect_refused(with(R"([{"name":"a","parent":"z"}])"), "no switch 'z'");
  expect_refused(with(R"([{"name":"a"},{"name":"a"}])"), "twice");
  expect_refused(with(R"([{"name":"a","uplink":"0Gb/s"}])"), "a speed of zero");
  // A tree that several ways up share is no cycle.
  parsed(with(R"([{"name":"a","parent":"c"},{"name":"b","parent":"c"},{"name":"c","parent":"d"},
                  {"name":"d"}])"));
}

TEST(ClusterFile, WhatIsNotJson) {
  for (const char* text : {"", "[", "7", "[]", "{}", "{\"hosts\":null}"}) refused(text);
  refused(std::string(100'000, '['));
  refused(Parts().text() + "x");
  refused("\xff");
}

}  // namespace
}  // namespace wb::cli
