// Page tables ahead of the first read.
#pragma once

#include <cstdint>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"

namespace wb::local {

// [begin, end) of this process's addresses, inside the mapping of one region.
struct AddressRange {
  uint32_t region = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The aligned window that one read fault enters into the page table (fault_around_bytes of Linux).
// MADV_POPULATE_READ goes from page to page and takes half as long again. Where the window is
// smaller, the rest is faulted in by the first pull.
inline constexpr uint64_t kFaultAround = 64u << 10;

// Whole pages that hold the ranges, ascending in each region and disjoint; gaps inside a region
// that a fault enters anyway are filled.
std::vector<AddressRange> page_ranges(std::vector<AddressRange> ranges, uint64_t page_bytes);

// Brings the pages of `ranges` (from page_ranges) into the page table, by reading a byte here and
// there: they must be mapped and readable. kDeadline between steps.
Status populate(const std::vector<AddressRange>& ranges, Deadline deadline);

}  // namespace wb::local
