#include "transport/local/populate.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace wb::local {
namespace {

// Some ten milliseconds of work between two looks at the clock.
constexpr uint64_t kStep = 128u << 20;

}  // namespace

std::vector<AddressRange> page_ranges(std::vector<AddressRange> ranges, uint64_t page_bytes) {
  std::sort(ranges.begin(), ranges.end(), [](const AddressRange& a, const AddressRange& b) {
    return std::tie(a.region, a.begin) < std::tie(b.region, b.begin);
  });
  std::vector<AddressRange> pages;
  for (const AddressRange& range : ranges) {
    if (range.begin == range.end) continue;
    const uint64_t begin = range.begin / page_bytes * page_bytes;
    const uint64_t end = (range.end + page_bytes - 1) / page_bytes * page_bytes;
    if (!pages.empty() && pages.back().region == range.region &&
        begin <= pages.back().end + kPopulateGap) {
      pages.back().end = std::max(pages.back().end, end);
    } else {
      pages.push_back({range.region, begin, end});
    }
  }
  return pages;
}

Status populate(const std::vector<AddressRange>& ranges, Deadline deadline) {
  for (const AddressRange& range : ranges) {
    for (uint64_t at = range.begin; at < range.end; at += kStep) {
      if (deadline.expired()) {
        return Status(Code::kDeadline, "the time was over while the source's pages were mapped");
      }
      const uint64_t step = std::min(kStep, range.end - at);
      if (madvise(reinterpret_cast<void*>(at), step, MADV_POPULATE_READ) == 0) continue;
      // Kernels before 5.14 (EINVAL) fault the pages in as they are read.
      if (errno == EINVAL) return Status();
      return errno_status(errno, "bringing the source's pages into the page table");
    }
  }
  return Status();
}

}  // namespace wb::local
