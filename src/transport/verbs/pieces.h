// Turns the runs of a read list into READs that a NIC can do: none crosses a registration on either
// side or is longer than the limit, and short rows that lie together at the source share one READ.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/read_list.h"

namespace wb::verbs {

// `count` READs. Each brings `rows` rows of `length` bytes, which lie together at the source, to
// `rows` places here.
struct Piece {
  uint64_t first = 0;  // index in the job of its first READ
  uint64_t remote = 0;
  uint64_t local = 0;
  uint64_t count = 0;
  int64_t remote_pitch = 0;  // from READ to READ
  int64_t local_pitch = 0;
  int64_t row_pitch = 0;  // from row to row of one READ, here
  uint32_t length = 0;
  uint32_t rows = 1;
  uint32_t remote_key = 0;  // into the job's keys
  uint32_t local_key = 0;

  uint64_t read_bytes() const { return uint64_t{length} * rows; }
};

// A region as READs see it: keys first_key, first_key + 1, ... one per slice.
struct RegionView {
  uint64_t address = 0;
  uint64_t slice_bytes = 0;
  uint32_t first_key = 0;
};

struct PieceLimits {
  uint32_t max_read = 1u << 20;
  uint32_t scatter = 1;
};

// Rows longer than this do not share READs: each is worth one of its own.
constexpr uint64_t kScatterBelow = 16u << 10;

// The runs are inside their regions (check_list).
std::vector<Piece> make_pieces(std::span<const Run> runs, std::span<const RegionView> remote,
                               std::span<const RegionView> local, const PieceLimits& limits);

}  // namespace wb::verbs
