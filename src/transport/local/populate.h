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

// Entering 16 pages costs about what one system call does.
inline constexpr uint64_t kPopulateGap = 64u << 10;

// Whole pages that hold the ranges, ascending in each region and disjoint; gaps inside a region
// that are too small to be worth a system call of their own are filled.
std::vector<AddressRange> page_ranges(std::vector<AddressRange> ranges, uint64_t page_bytes);

// Brings the pages of `ranges` (from page_ranges) into the page table. kDeadline between steps.
Status populate(const std::vector<AddressRange>& ranges, Deadline deadline);

}  // namespace wb::local
