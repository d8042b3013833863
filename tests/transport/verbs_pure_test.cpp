// What the verbs transport decides without any device: GIDs, ports, paths, options, limits,
// messages.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "transport/stamp_table.h"
#include "transport/verbs/completion.h"
#include "transport/verbs/gid.h"
#include "transport/verbs/limits.h"
#include "transport/verbs/options.h"
#include "transport/verbs/ports.h"
#include "transport/verbs/registration.h"
#include "transport/verbs/wire.h"

namespace wb::verbs {
namespace {

Gid gid(const std::string& text) {
  Gid out{};
  if (text.find(':') != std::string::npos) {
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), out.data()), 1) << text;
  } else {
    out[10] = out[11] = 0xff;
    EXPECT_EQ(inet_pton(AF_INET, text.c_str(), out.data() + 12), 1) << text;
  }
  return out;
}

GidRow row(uint32_t index, GidType type, const std::string& text) {
  return {gid(text), index, type};
}

TEST(GidChoice, ScopesOfAddresses) {
  for (const char* text : {"10.0.0.1", "192.168.7.9", "8.8.8.8", "172.16.0.1"}) {
    EXPECT_EQ(scope_of(gid(text)), GidScope::kIpv4) << text;
  }
  for (const char* text : {"2001:db8::1", "fd00::5", "fc00::1"}) {
    EXPECT_EQ(scope_of(gid(text)), GidScope::kIpv6) << text;
  }
  for (const char* text : {"fe80::1", "febf::1", "169.254.3.4"}) {
    EXPECT_EQ(scope_of(gid(text)), GidScope::kLinkLocal) << text;
  }
  for (const char* text : {"::", "::1", "ff02::1", "127.0.0.1", "0.0.0.0", "224.0.0.1"}) {
    EXPECT_EQ(scope_of(gid(text)), GidScope::kUnusable) << text;
  }
}

TEST(GidChoice, RoutableRoce2First) {
  const std::vector<GidRow> table = {
      row(0, GidType::kRoce1, "fe80::1"),  row(1, GidType::kRoce2, "fe80::1"),
      row(2, GidType::kRoce1, "10.0.0.1"), row(3, GidType::kRoce2, "2001:db8::1"),
      row(5, GidType::kRoce2, "10.0.0.2"), row(7, GidType::kRoce2, "10.0.0.1")};
  const auto choose = [&](size_t rows, int wanted = -1) {
    const auto found = choose_gid(std::span(table).first(rows), LinkLayer::kEthernet, wanted);
    return found.ok() ? static_cast<int>(found->row.index) : -1;
  };
  EXPECT_EQ(choose(6), 5);  // of equals the lowest index
  EXPECT_EQ(choose(4), 3);
  EXPECT_EQ(choose(3), 1);
  EXPECT_EQ(choose(1), -1);  // RoCE v1 only
  EXPECT_EQ(choose(6, 2), 2);
  EXPECT_EQ(choose(6, 4), -1);
  EXPECT_EQ(choose_gid(table, LinkLayer::kInfiniBand, -1)->row.index, 0u);
  const auto none = choose_gid({}, LinkLayer::kEthernet, -1);
  EXPECT_EQ(none.status().code(), Code::kNotFound);
  EXPECT_FALSE(choose_gid(table, LinkLayer::kEthernet, -1)->reason.empty());
}

// Whatever the table's order, nothing better is passed over.
TEST(GidChoice, NothingBetterIsPassedOver) {
  EXPECT_TRUE(rc::check("the best of any table", [] {
    std::vector<GidRow> table;
    const auto count = *rc::gen::inRange(0, 8);
    for (int i = 0; i < count; ++i) {
      const auto text = *rc::gen::element<std::string>("10.0.0.1", "fe80::1", "2001:db8::1", "::1",
                                                       "169.254.0.1", "127.0.0.1");
      const auto type = *rc::gen::element(GidType::kRoce1, GidType::kRoce2);
      table.push_back(row(static_cast<uint32_t>(i), type, text));
    }
    const auto found = choose_gid(table, LinkLayer::kEthernet, -1);
    for (const GidRow& one : table) {
      if (one.type != GidType::kRoce2 || scope_of(one.gid) == GidScope::kUnusable) continue;
      RC_ASSERT(found.ok());
      RC_ASSERT(scope_of(found->row.gid) <= scope_of(one.gid));
    }
    if (found.ok()) RC_ASSERT(found->row.type == GidType::kRoce2);
  }));
}

PortInfo port(const std::string& device, uint32_t gbps, bool active = true, int node = -1) {
  PortInfo out;
  out.device = device;
  out.gbps = gbps;
  out.active = active;
  out.numa_node = node;
  return out;
}

std::vector<size_t> chosen(const std::vector<PortInfo>& ports,
                           const std::vector<std::string>& wanted = {}, int near = -1) {
  std::vector<size_t> out;
  const auto found = choose_ports(ports, wanted, near);
  if (!found.ok()) return out;
  for (const PortChoice& one : *found) out.push_back(one.index);
  return out;
}

TEST(PortChoice, ActiveFastestAndNear) {
  std::vector<PortInfo> ports = {port("eth", 25, true, 0), port("a", 400, true, 0),
                                 port("b", 400, false, 0), port("c", 400, true, 1)};
  EXPECT_EQ(chosen(ports), (std::vector<size_t>{1, 3}));
  EXPECT_EQ(chosen(ports, {}, 1), (std::vector<size_t>{3}));
  EXPECT_EQ(chosen(ports, {}, 7), (std::vector<size_t>{1, 3}));
  EXPECT_EQ(chosen(ports, {"c", "eth:1"}), (std::vector<size_t>{3, 0}));
  EXPECT_EQ(choose_ports(ports, std::vector<std::string>{"b"}, -1).status().code(),
            Code::kUnsupported);
  EXPECT_EQ(choose_ports(ports, std::vector<std::string>{"x"}, -1).status().code(),
            Code::kUnsupported);
  EXPECT_EQ(choose_ports(ports, std::vector<std::string>{"a", "a:1"}, -1).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(choose_ports({}, {}, -1).status().code(), Code::kUnsupported);
  for (PortInfo& one : ports) one.reads = false;
  EXPECT_EQ(choose_ports(ports, {}, -1).status().code(), Code::kUnsupported);
}

TEST(PortChoice, SpeedsAndQueuePairs) {
  EXPECT_EQ(gbps_of(2, 32), 100u);   // EDR
  EXPECT_EQ(gbps_of(2, 64), 200u);   // HDR
  EXPECT_EQ(gbps_of(2, 128), 400u);  // NDR
  EXPECT_EQ(gbps_of(1, 1), 2u);
  EXPECT_EQ(gbps_of(0, 99), 0u);
  EXPECT_EQ(queue_pairs_for(0), 1u);
  EXPECT_EQ(queue_pairs_for(100), 2u);
  EXPECT_EQ(queue_pairs_for(400), 2u);
  EXPECT_EQ(queue_pairs_for(800), 4u);
}

std::vector<PathEnd> ends(const std::vector<std::string>& gids,
                          LinkLayer layer = LinkLayer::kEthernet) {
  std::vector<PathEnd> out;
  for (const std::string& text : gids) out.push_back({gid(text), 1, layer, 5});
  return out;
}

std::vector<size_t> partners(const std::vector<PathEnd>& reader,
                             const std::vector<PathEnd>& source) {
  std::vector<size_t> out;
  const auto found = pair_rails(reader, source);
  if (!found.ok()) return out;
  for (const RailPair& pair : *found) out.push_back(pair.source);
  return out;
}

TEST(RailPairs, SameSubnetThenInTurn) {
  EXPECT_EQ(partners(ends({"10.0.0.1", "10.0.1.1"}), ends({"10.0.1.2", "10.0.0.2"})),
            (std::vector<size_t>{1, 0}));
  // One subnet for all: every port of the source is used.
  EXPECT_EQ(partners(ends({"10.0.0.9", "10.0.0.10"}), ends({"10.0.0.8", "10.0.0.1"})),
            (std::vector<size_t>{0, 1}));
  EXPECT_EQ(partners(ends({"10.0.0.1", "10.0.1.1", "10.0.2.1"}), ends({"10.0.0.2"})),
            (std::vector<size_t>{0, 0, 0}));
  // What cannot meet: families, link-local with routable, kinds of network, InfiniBand subnets.
  EXPECT_TRUE(partners(ends({"10.0.0.1"}), ends({"2001:db8::1"})).empty());
  EXPECT_TRUE(partners(ends({"fe80::1"}), ends({"2001:db8::1"})).empty());
  EXPECT_TRUE(partners(ends({"10.0.0.1"}), ends({"10.0.0.2"}, LinkLayer::kInfiniBand)).empty());
  EXPECT_TRUE(
      partners(ends({"fe80::1"}, LinkLayer::kInfiniBand), ends({"fe81::2"}, LinkLayer::kInfiniBand))
          .empty());
  EXPECT_EQ(partners(ends({"fe80::1"}, LinkLayer::kInfiniBand),
                     ends({"fe80::2"}, LinkLayer::kInfiniBand)),
            (std::vector<size_t>{0}));
}

TEST(Options, AreParsedAndBounded) {
  const auto parsed = parse_verbs_options(
      "devices=mlx5_0+mlx5_1:2,gid_index=3,pkey=32769,mtu=1024,sl=3,traffic_class=106,timeout=18,"
      "retry_count=5,read_depth=8,queue_pairs=4,max_read=65536,nic_budget=1048576,"
      "max_slice=1073741824,max_sge=4,probe_ms=100,relaxed_ordering=0,library=libx.so");
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  EXPECT_EQ(parsed->devices, (std::vector<std::string>{"mlx5_0", "mlx5_1:2"}));
  EXPECT_EQ(parsed->gid_index, 3);
  EXPECT_EQ(parsed->pkey, 32769);
  EXPECT_EQ(parsed->traffic_class, 106);
  EXPECT_EQ(parsed->timeout, 18);
  EXPECT_EQ(parsed->retry_count, 5);
  EXPECT_EQ(parsed->read_depth, 8);
  EXPECT_EQ(parsed->queue_pairs, 4u);
  EXPECT_EQ(parsed->max_read, 65536u);
  EXPECT_FALSE(parsed->relaxed_ordering);
  EXPECT_EQ(parsed->library, "libx.so");
  EXPECT_TRUE(parse_verbs_options("").ok());
  EXPECT_EQ(VerbsOptions().retry_count, 6);  // 7 never ends on soft-RoCE
  for (const char* wrong : {"x=1",
                            "mtu",
                            "mtu=",
                            "mtu=100",
                            "mtu=1500",
                            "timeout=0",
                            "timeout=32",
                            "retry_count=8",
                            "sl=16",
                            "read_depth=0",
                            "read_depth=256",
                            "queue_pairs=17",
                            "max_read=1",
                            "devices=",
                            "devices=a++b",
                            "relaxed_ordering=2",
                            "gid_index=-1",
                            "pkey=65536",
                            "nic_budget=-1",
                            "timeout=16 ",
                            "timeout=16,,",
                            "max_slice=8589934592"}) {
    EXPECT_EQ(parse_verbs_options(wrong).status().code(), Code::kInvalidArgument) << wrong;
  }
}

TEST(Limits, LockedMemoryIsCheckedWithItsCure) {
  const LockLimits limits{64u << 20, 10u << 20, false};
  EXPECT_TRUE(check_lock_limit(54u << 20, 1, limits).ok());
  const Status refused = check_lock_limit(28u << 20, 2, limits);  // each NIC pins for itself
  EXPECT_EQ(refused.code(), Code::kNoMemory);
  for (const char* word : {"RLIMIT_MEMLOCK", "ulimit -l", "64 MiB", "10 MiB", "2 RDMA port"}) {
    EXPECT_NE(refused.message().find(word), std::string::npos) << word;
  }
  EXPECT_TRUE(check_lock_limit(1u << 30, 2, {64u << 20, 0, true}).ok());
  EXPECT_TRUE(check_lock_limit(UINT64_MAX, 8, {}).ok());
  EXPECT_FALSE(check_lock_limit(UINT64_MAX, 8, limits).ok());
  EXPECT_FALSE(check_lock_limit(UINT64_MAX / 2, 2, limits).ok());
  EXPECT_TRUE(check_device_limit(10, 5, {"a", 15}).ok());
  EXPECT_EQ(check_device_limit(11, 5, {"a", 15}).code(), Code::kNoMemory);
  EXPECT_EQ(check_device_limit(1, 20, {"a", 15}).code(), Code::kNoMemory);
  EXPECT_TRUE(check_device_limit(1, 20, {"a", 0}).ok());
}

TEST(Limits, SlicesFitEveryDevice) {
  const auto slice = [](uint64_t bytes, uint64_t wanted, std::vector<uint64_t> most) {
    return slice_bytes_for(bytes, wanted, most);
  };
  EXPECT_EQ(slice(100, 1u << 20, {}), 100u);
  EXPECT_EQ(slice(5u << 20, 1u << 20, {}), 1u << 20);
  EXPECT_EQ(slice(5u << 20, 4u << 20, {UINT64_MAX, 3u << 20}), 3u << 20);
  EXPECT_EQ(slice(5u << 20, 4u << 20, {(3u << 20) + 5}), 3u << 20);  // whole pages
  EXPECT_EQ(slice(uint64_t{9} << 30, uint64_t{2} << 30, {UINT64_MAX}), uint64_t{2} << 30);
}

TEST(Completions, EveryStatusHasANameACodeAndABlame) {
  for (int i = 1; i <= IBV_WC_TM_RNDV_INCOMPLETE; ++i) {
    const auto status = static_cast<ibv_wc_status>(i);
    const Status typed = completion_status(status, 7, {"peer", "nic:1", 42, 10, 3});
    EXPECT_FALSE(typed.ok()) << i;
    EXPECT_NE(typed.message().find(completion_name(status)), std::string::npos);
    EXPECT_NE(typed.message().find("reads 10 to 12"), std::string::npos) << typed.message();
    EXPECT_NE(typed.message().find("queue pair 42 of nic:1"), std::string::npos);
    EXPECT_EQ(typed.facts().vendor, (int64_t{7} << 32) + i);
    EXPECT_EQ(typed.facts().peer, "peer");
  }
  EXPECT_FALSE(completion_status(static_cast<ibv_wc_status>(31), 0, {}).ok());
  EXPECT_EQ(blame_of(IBV_WC_REM_ACCESS_ERR), Blame::kRequest);
  EXPECT_EQ(blame_of(IBV_WC_LOC_PROT_ERR), Blame::kRequest);
  EXPECT_EQ(blame_of(IBV_WC_RETRY_EXC_ERR), Blame::kPath);
  EXPECT_EQ(blame_of(IBV_WC_LOC_QP_OP_ERR), Blame::kPath);
  EXPECT_EQ(blame_of(IBV_WC_WR_FLUSH_ERR), Blame::kFlushed);
}

// ---- messages ----

VerbsAddress some_address() {
  VerbsAddress out;
  out.incarnation = {1, 2};
  out.stamp_table = 1u << 20;
  out.rails = {{{gid("10.0.0.1"), 3, LinkLayer::kEthernet, 5}, 400, 77},
               {{gid("10.0.1.1"), 4, LinkLayer::kEthernet, 3}, 100, 78}};
  return out;
}

VerbsKey some_key() {
  VerbsKey out;
  out.incarnation = {1, 2};
  out.slot = 5;
  out.stamp = 9;
  out.address = 1u << 30;
  out.bytes = 10000;
  out.slice_bytes = 4096;
  out.rails = 2;
  out.rkeys = {1, 2, 3, 4, 5, 6};
  return out;
}

ConnectRequest some_request() {
  ConnectRequest out;
  out.source = {1, 2};
  out.reader = {3, 4};
  out.ended = {{5, 6}, {7, 8}};
  out.groups = {
      {1, {gid("10.0.0.9"), 0, LinkLayer::kEthernet, 4}, {{100, 200, 16}, {101, 201, 16}}}};
  return out;
}

ConnectGrant some_grant() {
  ConnectGrant out;
  out.connection = {9, 9};
  out.groups = {{4, {{300, 400, 16}, {301, 401, 16}}}};
  return out;
}

TEST(Messages, ComeBackAsTheyWere) {
  EXPECT_EQ(encode(*decode_address(encode(some_address()))), encode(some_address()));
  EXPECT_EQ(encode(*decode_key(encode(some_key()))), encode(some_key()));
  EXPECT_EQ(encode(*decode_request(encode(some_request()))), encode(some_request()));
  EXPECT_EQ(encode(*decode_grant(encode(some_grant()))), encode(some_grant()));
  EXPECT_EQ(decode_key(encode(some_key()))->rkeys, some_key().rkeys);
}

template <typename Decode>
void expect_bounded(const std::string& whole, Decode decode) {
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_EQ(decode(whole.substr(0, cut)).status().code(), Code::kBadData) << cut;
  }
  EXPECT_EQ(decode(whole + "x").status().code(), Code::kBadData);
  EXPECT_TRUE(rc::check("garbled messages are refused or sensible", [&] {
    std::string said = whole;
    const int flips = *rc::gen::inRange(1, 6);
    for (int i = 0; i < flips; ++i) {
      said[*rc::gen::inRange<size_t>(0, said.size())] = *rc::gen::arbitrary<char>();
    }
    const auto decoded = decode(said);
    // What was taken is exactly what was said.
    if (decoded.ok()) RC_ASSERT(encode(*decoded) == said);
  }));
}

TEST(Messages, OnlyWholeOnesAreTaken) {
  expect_bounded(encode(some_address()),
                 [](std::string_view said) { return decode_address(said); });
  expect_bounded(encode(some_key()), [](std::string_view said) { return decode_key(said); });
  expect_bounded(encode(some_request()),
                 [](std::string_view said) { return decode_request(said); });
  expect_bounded(encode(some_grant()), [](std::string_view said) { return decode_grant(said); });
}

TEST(Messages, NonsenseIsRefused) {
  const auto key = [](auto change) {
    VerbsKey out = some_key();
    change(out);
    return decode_key(encode(out)).status().code();
  };
  EXPECT_EQ(key([](VerbsKey& k) { k.bytes = 0; }), Code::kBadData);
  EXPECT_EQ(key([](VerbsKey& k) { k.slice_bytes = 0; }), Code::kBadData);
  EXPECT_EQ(key([](VerbsKey& k) { k.slice_bytes = 1; }), Code::kBadData);  // 10000 slices, 6 keys
  EXPECT_EQ(key([](VerbsKey& k) { k.rails = 0; }), Code::kBadData);
  EXPECT_EQ(key([](VerbsKey& k) { k.rails = UINT32_MAX; }), Code::kBadData);
  EXPECT_EQ(key([](VerbsKey& k) { k.address = UINT64_MAX - 100; }), Code::kBadData);
  EXPECT_EQ(key([](VerbsKey& k) { k.bytes = UINT64_MAX; }), Code::kBadData);
  EXPECT_EQ(key([](VerbsKey& k) { k.slot = kStampSlots; }), Code::kBadData);
  EXPECT_EQ(key([](VerbsKey& k) { k.stamp = 0; }), Code::kBadData);
  ConnectRequest request = some_request();
  request.groups[0].offers[0].number = 1u << 24;
  EXPECT_FALSE(decode_request(encode(request)).ok());
  request = some_request();
  request.groups[0].offers[0].depth = 0;
  EXPECT_FALSE(decode_request(encode(request)).ok());
  request = some_request();
  request.groups[0].offers.resize(kMaxQueuePairs + 1, {1, 1, 1});
  EXPECT_FALSE(decode_request(encode(request)).ok());
  request.groups.clear();
  EXPECT_FALSE(decode_request(encode(request)).ok());
  VerbsAddress address = some_address();
  address.stamp_table = 4;
  EXPECT_FALSE(decode_address(encode(address)).ok());
  address = some_address();
  address.rails.clear();
  EXPECT_FALSE(decode_address(encode(address)).ok());
}

}  // namespace
}  // namespace wb::verbs
