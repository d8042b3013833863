#include "transport/local/populate.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <set>
#include <vector>

namespace wb::local {
namespace {

using namespace std::chrono_literals;

// Against a set of single pages: nothing that is read is left out, nothing outside a region's pages
// or far from any read is brought in.
TEST(Populate, RangesBecomeTheirPages) {
  std::mt19937_64 random(3);
  constexpr uint64_t kPage = 4096;
  for (int round = 0; round < 300; ++round) {
    std::vector<AddressRange> ranges;
    std::set<std::pair<uint32_t, uint64_t>> wanted;
    for (size_t i = 0; i < random() % 30; ++i) {
      const auto region = static_cast<uint32_t>(random() % 3);
      const uint64_t begin = (uint64_t{region} + 1) * (1u << 30) + random() % (4u << 20);
      const uint64_t end = begin + random() % (i % 2 == 0 ? 100 : 200000);
      ranges.push_back({region, begin, end});
      for (uint64_t at = begin / kPage; end != begin && at <= (end - 1) / kPage; ++at) {
        wanted.insert({region, at});
      }
    }
    std::set<std::pair<uint32_t, uint64_t>> got;
    const auto pages = page_ranges(ranges, kPage);
    for (size_t i = 0; i < pages.size(); ++i) {
      ASSERT_EQ(pages[i].begin % kPage, 0u);
      ASSERT_EQ(pages[i].end % kPage, 0u);
      if (i > 0 && pages[i].region == pages[i - 1].region) {
        ASSERT_GT(pages[i].begin, pages[i - 1].end + kPopulateGap);
      }
      for (uint64_t at = pages[i].begin / kPage; at < pages[i].end / kPage; ++at) {
        ASSERT_TRUE(got.insert({pages[i].region, at}).second);
      }
      ASSERT_TRUE(got.contains({pages[i].region, pages[i].begin / kPage}));
      ASSERT_TRUE(wanted.contains({pages[i].region, pages[i].begin / kPage}));
      ASSERT_TRUE(wanted.contains({pages[i].region, pages[i].end / kPage - 1}));
    }
    for (const auto& page : wanted) ASSERT_TRUE(got.contains(page));
  }
}

TEST(Populate, BringsInWhatIsAskedForAndNoMore) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t bytes = 1024 * page;
  const int fd = memfd_create("populate", 0);
  ASSERT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(data, MAP_FAILED);
  const auto at = reinterpret_cast<uint64_t>(data);
  const auto pages = page_ranges({{0, at + 100 * page + 1, at + 300 * page}}, page);
  const Status done = populate(pages, Deadline::after(10s));
  ASSERT_TRUE(done.ok()) << done.to_string();
  std::vector<unsigned char> there(1024);
  ASSERT_EQ(mincore(data, bytes, there.data()), 0);
  for (size_t i = 0; i < there.size(); ++i) {
    ASSERT_EQ((there[i] & 1) != 0, i >= 100 && i < 300) << i;
  }
  EXPECT_EQ(populate(pages, Deadline::after(0s)).code(), Code::kDeadline);
  munmap(data, bytes);
  close(fd);
}

}  // namespace
}  // namespace wb::local
