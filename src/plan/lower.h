// Turns one share into runs of bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"
#include "plan/read_list.h"
#include "plan/share.h"

namespace wb {

// More runs than this in one read list are refused: 64 million runs are 3.5 GB of plan, and no
// layout that is worth reading byte by byte needs them.
inline constexpr uint64_t kMaxRuns = uint64_t{1} << 26;

// Appends the runs that bring `share` (in units of `unit_bytes`) from the source's buffer, which
// lies at `from`, into the receiver's, which lies at `to`. As few runs as the two layouts allow.
// kUnsupported when `runs` would grow beyond kMaxRuns.
Status lower_share(const Share& share, uint32_t unit_bytes, const Placement& from,
                   const Placement& to, std::vector<Run>* runs);

}  // namespace wb
