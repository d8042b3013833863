// Bounds of read lists: every transport checks a list with these before it keeps an address of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "plan/read_list.h"

namespace wb {

struct ListTotals {
  uint64_t bytes = 0;
  uint64_t reads = 0;  // rows
};

// Every run names a region that exists, every row lies inside both of its regions and no two rows
// of a run share a local byte. remote_bytes and local_bytes are the sizes of the regions by the
// index that the runs use. kInvalidArgument names the first run that is wrong. The totals are
// counted here and overflow-checked; those in the list are the planner's words and not used.
Result<ListTotals> check_list(const ReadList& list, std::span<const uint64_t> remote_bytes,
                              std::span<const uint64_t> local_bytes);

}  // namespace wb
