#include "transport/local/populate.h"

#include <fcntl.h>
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
        ASSERT_GT(pages[i].begin, pages[i - 1].end + kFaultAround);
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

// Which of the `count` pages at `data` are in this process's page table.
std::vector<bool> in_page_table(const void* data, size_t count, uint64_t page) {
  std::vector<uint64_t> entries(count);
  const int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const auto bytes = static_cast<ssize_t>(count * sizeof(uint64_t));
  const auto at = static_cast<off_t>(reinterpret_cast<uint64_t>(data) / page * sizeof(uint64_t));
  EXPECT_EQ(pread(fd, entries.data(), count * sizeof(uint64_t), at), bytes);
  close(fd);
  std::vector<bool> present;
  for (const uint64_t entry : entries) present.push_back((entry >> 63) != 0);
  return present;
}

TEST(Populate, BringsInWhatIsAskedForAndNoMore) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t bytes = 1024 * page;
  const int fd = memfd_create("populate", 0);
  ASSERT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  const std::vector<char> content(bytes, 1);
  ASSERT_EQ(pwrite(fd, content.data(), bytes, 0), static_cast<ssize_t>(bytes));
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(data, MAP_FAILED);
  const auto at = reinterpret_cast<uint64_t>(data);
  const auto pages = page_ranges({{0, at + 100 * page + 1, at + 300 * page}}, page);
  EXPECT_EQ(populate(pages, Deadline::after(0s)).code(), Code::kDeadline);
  const Status done = populate(pages, Deadline::after(10s));
  ASSERT_TRUE(done.ok()) << done.to_string();
  const std::vector<bool> there = in_page_table(data, 1024, page);
  const uint64_t around = kFaultAround / page;
  for (size_t i = 0; i < there.size(); ++i) {
    if (i >= 100 && i < 300) {
      ASSERT_TRUE(there[i]) << i;
    } else if (i + around < 100 || i >= 300 + around) {
      ASSERT_FALSE(there[i]) << i;
    }
  }
  munmap(data, bytes);
  close(fd);
}

}  // namespace
}  // namespace wb::local
