// What a transport executes: strided runs of bytes from one source into one receiver.
#pragma once

#include <cstdint>
#include <vector>

namespace wb {

// `count` rows of `length` bytes. Row i is read from byte remote_offset + i * remote_pitch of
// remote region remote_region into byte local_offset + i * local_pitch of local region
// local_region. A run without rows structure has count 1. Rows of one run never overlap locally.
struct Run {
  uint32_t remote_region = 0;
  uint32_t local_region = 0;
  uint64_t remote_offset = 0;
  uint64_t local_offset = 0;
  uint64_t length = 0;
  uint64_t count = 1;
  int64_t remote_pitch = 0;
  int64_t local_pitch = 0;
  bool operator==(const Run&) const = default;
};

// All that one receiver reads from one source, in the order in which it is read.
struct ReadList {
  uint32_t source = 0;  // index into the sources that the plan was made from
  std::vector<Run> runs;
  uint64_t bytes = 0;  // sum of length * count
  uint64_t reads = 0;  // sum of count
};

}  // namespace wb
