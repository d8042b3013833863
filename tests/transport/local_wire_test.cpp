// Messages of the transports: what is written is read back, anything else is refused.
#include "transport/local/wire.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "transport/ucx/endpoint.h"
#include "transport/ucx/wire.h"

namespace wb {
namespace {

TEST(Wire, WhatIsWrittenIsReadBack) {
  EXPECT_TRUE(rc::check([](uint64_t a, uint64_t b, uint32_t c, bool flag, std::string text) {
    const local::ProcessAddress address{{a, b}, b, a, c, a ^ b, {b, a}, a};
    const auto read_address = local::decode_address(encode(address));
    RC_ASSERT(read_address.ok());
    RC_ASSERT(encode(*read_address) == encode(address));
    const local::RegionKey key{{a, b}, c, a | 1, (b >> 1) | 1, (a >> 2) | 1, flag};
    const auto read_key = local::decode_key(encode(key));
    RC_ASSERT(read_key.ok());
    RC_ASSERT(encode(*read_key) == encode(key));
    const local::Request request{flag ? local::Ask::kMap : local::Ask::kPtrace, c, c, b};
    RC_ASSERT(encode(local::decode_request(encode(request)).value()) == encode(request));
    const local::MapGrant grant{{a, b}, text.substr(0, 100)};
    RC_ASSERT(encode(local::decode_map_grant(encode(grant)).value()) == encode(grant));
    const ucx::UcxAddress ucx_address{{a, b}, text + "x"};
    RC_ASSERT(encode(ucx::decode_address(encode(ucx_address)).value()) == encode(ucx_address));
    const ucx::UcxKey ucx_key{
        {a, b}, c, a | 1, {(a >> 1) | 1, (b >> 2) | 1, text + "r"}, {1, 2, "s"}};
    RC_ASSERT(encode(ucx::decode_key(encode(ucx_key)).value()) == encode(ucx_key));
  }));
}

TEST(Wire, RandomBytesAndCutMessagesAreRefused) {
  const std::vector<std::string> messages = {
      encode(local::ProcessAddress{}),
      encode(local::RegionKey{{}, 0, 1, 1, 1, false}),
      encode(local::Request{}),
      encode(local::MapGrant{{}, "name"}),
      encode(local::PtraceGrant{}),
      encode(ucx::UcxAddress{{}, "w"}),
      encode(ucx::UcxKey{{}, 0, 1, {1, 1, "r"}, {1, 1, "s"}})};
  const auto accepted = [](const std::string& bytes) {
    return local::decode_address(bytes).ok() + local::decode_key(bytes).ok() +
           local::decode_request(bytes).ok() + local::decode_map_grant(bytes).ok() +
           local::decode_ptrace_grant(bytes).ok() + ucx::decode_address(bytes).ok() +
           ucx::decode_key(bytes).ok();
  };
  for (const std::string& message : messages) {
    EXPECT_EQ(accepted(message), 1);
    EXPECT_EQ(accepted(message + "x"), 0);
    for (size_t cut = 0; cut < message.size(); ++cut)
      EXPECT_EQ(accepted(message.substr(0, cut)), 0);
  }
  EXPECT_TRUE(rc::check([&](const std::string& bytes) { RC_ASSERT(accepted(bytes) == 0); }));
}

TEST(Wire, KeysThatWrapAroundAreRefused) {
  EXPECT_FALSE(local::decode_key(encode(local::RegionKey{{}, 0, 1, UINT64_MAX, 2, true})).ok());
  EXPECT_FALSE(local::decode_key(encode(local::RegionKey{{}, 0, 1, 4096, 0, true})).ok());
  EXPECT_FALSE(local::decode_key(encode(local::RegionKey{{}, 0, 0, 4096, 1, true})).ok());
  EXPECT_FALSE(
      ucx::decode_key(encode(ucx::UcxKey{{}, 0, 1, {UINT64_MAX, 2, "r"}, {1, 1, "s"}})).ok());
}

TEST(Lanes, TellWhetherTheSourceHelps) {
  const auto tcp = ucx::lanes_of(
      "#\n#   peer: x\n#     lane[0]:  1:tcp/lo.0 md[1]   -> md[1]/tcp/sysdev[255] am am_bw#0 "
      "keepalive wireup\n#\n");
  EXPECT_EQ(tcp.transports, "tcp");
  EXPECT_TRUE(tcp.source_helps);
  EXPECT_TRUE(tcp.by_processor);
  const auto rc = ucx::lanes_of(
      "# lane[0]:  8:rc_mlx5/mlx5_0:1.0 md[4] -> md[4]/ib/sysdev[255] rma_bw#0 am am_bw#0\n"
      "# lane[1]:  9:rc_mlx5/mlx5_1:1.0 md[5] -> md[5]/ib/sysdev[255] rma_bw#1 wireup\n");
  EXPECT_EQ(rc.transports, "rc_mlx5");
  EXPECT_FALSE(rc.source_helps);
  EXPECT_FALSE(rc.by_processor);
  const auto cma = ucx::lanes_of(
      "# lane[0]:  2:posix/memory.0 md[2] -> md[2]/posix/sysdev[255] am am_bw#0\n"
      "# lane[1]:  4:cma/memory.0 md[3] -> md[3]/cma/sysdev[255] rma_bw#0\n");
  EXPECT_EQ(cma.transports, "cma");
  EXPECT_FALSE(cma.source_helps);
  EXPECT_TRUE(cma.by_processor);
  // An unreliable datagram lane moves messages only, whatever it is used for.
  EXPECT_TRUE(
      ucx::lanes_of("# lane[0]: 8:ud_verbs/mlx5_0:1.0 md[4] -> md[4] rma am\n").source_helps);
  EXPECT_TRUE(ucx::lanes_of("").source_helps);
}

}  // namespace
}  // namespace wb
