// Part of the proof: does any byte of the receiver get written twice?
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/read_list.h"
#include "plan/work.h"

namespace wb::proof {

// [begin, end) of a region.
struct Span {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Row `row` of a run. Only for runs whose rows were found to lie inside their regions.
inline uint64_t row_address(uint64_t offset, uint64_t row, int64_t pitch) {
  return static_cast<uint64_t>(static_cast<int64_t>(offset) + static_cast<int64_t>(row) * pitch);
}

// One run as it writes into the receiver: all rows inside `span` of run->local_region.
struct Write {
  const Run* run = nullptr;
  Span span;
  uint32_t group = 0;
};

struct ByteAddress {
  uint32_t region = 0;
  uint64_t byte = 0;
};

enum class Among {
  kAll,     // any two rows
  kGroups,  // rows of two groups; those of one group may meet
};

// A byte that two rows write, if there is one. Sorts `writes`. Takes time in the number of runs
// where their spans do not meet or their rows lie side by side at one pitch; else in rows.
// kUnsupported when `work` is used up.
Result<std::optional<ByteAddress>> written_twice(std::vector<Write>* writes, Among among,
                                                 Work* work);

}  // namespace wb::proof
