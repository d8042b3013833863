#include "transport/run_check.h"

#include <algorithm>

#include "base/checked.h"

namespace wb {
namespace {

// Wide enough for uint64 + uint64 * int64 without overflow: |value| < 2^64 + 2^127.
using Wide = __int128;

bool rows_inside(uint64_t offset, uint64_t length, uint64_t count, int64_t pitch, uint64_t size) {
  const Wide first = static_cast<Wide>(offset);
  // (2^64 - 1) * 2^63 + 2^64 < 2^127.
  const Wide last = first + static_cast<Wide>(count - 1) * static_cast<Wide>(pitch);
  return std::min(first, last) >= 0 &&
         std::max(first, last) + static_cast<Wide>(length) <= static_cast<Wide>(size);
}

bool rows_apart(uint64_t length, int64_t pitch) {
  // The negation of INT64_MIN does not fit in int64_t, but its magnitude fits in uint64_t.
  const uint64_t magnitude =
      pitch < 0 ? ~static_cast<uint64_t>(pitch) + 1 : static_cast<uint64_t>(pitch);
  return magnitude >= length;
}

Status wrong_run(size_t index, const std::string& what) {
  return Status(Code::kInvalidArgument,
                "run " + std::to_string(index) + " of the read list " + what);
}

}  // namespace

Result<ListTotals> check_list(const ReadList& list, std::span<const uint64_t> remote_bytes,
                              std::span<const uint64_t> local_bytes) {
  ListTotals totals;
  for (size_t i = 0; i < list.runs.size(); ++i) {
    const Run& run = list.runs[i];
    if (run.remote_region >= remote_bytes.size()) return wrong_run(i, "names no remote region");
    if (run.local_region >= local_bytes.size()) return wrong_run(i, "names no local region");
    if (run.count == 0 || run.length == 0) continue;
    if (!rows_inside(run.remote_offset, run.length, run.count, run.remote_pitch,
                     remote_bytes[run.remote_region])) {
      return wrong_run(i, "reads outside its remote region");
    }
    if (!rows_inside(run.local_offset, run.length, run.count, run.local_pitch,
                     local_bytes[run.local_region])) {
      return wrong_run(i, "writes outside its local region");
    }
    if (run.count > 1 && !rows_apart(run.length, run.local_pitch)) {
      return wrong_run(i, "has rows that overlap locally");
    }
    const auto run_bytes = checked_mul(run.length, run.count);
    const auto bytes = run_bytes ? checked_add(totals.bytes, *run_bytes) : run_bytes;
    const auto reads = checked_add(totals.reads, run.count);
    if (!bytes || !reads) return wrong_run(i, "makes the total overflow");
    totals = {*bytes, *reads};
  }
  return totals;
}

}  // namespace wb
