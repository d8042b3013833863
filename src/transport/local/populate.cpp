#include "transport/local/populate.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

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
        begin <= pages.back().end + kFaultAround) {
      pages.back().end = std::max(pages.back().end, end);
    } else {
      pages.push_back({range.region, begin, end});
    }
  }
  return pages;
}

Status populate(const std::vector<AddressRange>& ranges, Deadline deadline) {
  for (const AddressRange& range : ranges) {
    uint64_t looked = 0;
    for (uint64_t at = range.begin; at < range.end; at = (at / kFaultAround + 1) * kFaultAround) {
      if (at - looked >= kStep) {
        looked = at;
        if (deadline.expired()) {
          return Status(Code::kDeadline, "the time was over while the source's pages were mapped");
        }
      }
      // The size of a source's memory is sealed: there is a page.
      (void)*reinterpret_cast<const volatile std::byte*>(at);
    }
  }
  return Status();
}

}  // namespace wb::local
