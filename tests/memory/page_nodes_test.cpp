#include "memory/page_nodes.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <numeric>
#include <string>

namespace wb {
namespace {

uint64_t pages_of(const std::vector<NodePages>& nodes) {
  return std::accumulate(nodes.begin(), nodes.end(), uint64_t{0},
                         [](uint64_t sum, const NodePages& part) { return sum + part.pages; });
}

constexpr char kMaps[] =
    "55d0a0000000 default file=/usr/bin/python3 mapped=12 N0=12 kernelpagesize_kB=4\n"
    "7f0000000000 default anon=512 dirty=512 N0=384 N1=128 kernelpagesize_kB=4\n"
    "7f0000400000 bind:1 file=/memfd:N7=9\\040(deleted) huge anon=4 N1=4 kernelpagesize_kB=2048\n"
    "7fff00000000 default stack anon=3 dirty=3 N12=3 kernelpagesize_kB=4\n";

TEST(PageNodes, ReadsTheMappingThatHoldsTheAddress) {
  const auto at = [](uint64_t address) { return *nodes_from_numa_maps(kMaps, address); };
  EXPECT_EQ(at(0x7f0000000000), (std::vector<NodePages>{{0, 384}, {1, 128}}));
  EXPECT_EQ(at(0x7f00003fffff), (std::vector<NodePages>{{0, 384}, {1, 128}}));
  EXPECT_EQ(at(0x7f0000400000), (std::vector<NodePages>{{1, 4}}));
  EXPECT_EQ(at(0x7fffffffffff), (std::vector<NodePages>{{12, 3}}));
}

TEST(PageNodes, TextThatIsNoNumaMapsGivesNothing) {
  EXPECT_EQ(nodes_from_numa_maps(kMaps, 0x1000).status().code(), Code::kNotFound);
  EXPECT_EQ(nodes_from_numa_maps("", 0x7f0000000000).status().code(), Code::kNotFound);
  EXPECT_EQ(nodes_from_numa_maps("nonsense\n\nN0=5", 1).status().code(), Code::kNotFound);
  EXPECT_TRUE(nodes_from_numa_maps("0 default N0=x Nx=3 N=4 N99999999999=1", 1)->empty());
}

TEST(PageNodes, TouchedPagesAreOnANodeUntouchedOnesAreNot) {
  constexpr size_t kBytes = 4u << 20;
  void* base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(base, MAP_FAILED);
  const auto before = buffer_nodes(base, kBytes);
  if (before.status().code() == Code::kUnsupported) {
    munmap(base, kBytes);
    GTEST_SKIP() << before.status().message();
  }
  ASSERT_TRUE(before.ok()) << before.status().to_string();
  EXPECT_EQ(pages_of(*before), 0u);
  std::memset(base, 1, kBytes);
  const auto after = buffer_nodes(base, kBytes);
  ASSERT_TRUE(after.ok()) << after.status().to_string();
  EXPECT_GE(pages_of(*after), 1u);
  // One byte is one page, wherever it lies in it.
  const auto one = buffer_nodes(static_cast<char*>(base) + 4095, 1);
  ASSERT_TRUE(one.ok());
  EXPECT_GE(pages_of(*one), 1u);
  munmap(base, kBytes);
}

TEST(PageNodes, NoBufferIsRefused) {
  char byte = 0;
  EXPECT_EQ(buffer_nodes(nullptr, 1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(buffer_nodes(&byte, 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(buffer_nodes(&byte, UINT64_MAX).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace wb
