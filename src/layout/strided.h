// Sets of bytes made of equal runs at several strides, and exact questions about them: what a piece
// occupies of its buffer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "layout/worker_layout.h"

namespace wb {

// { low + sum(x_d * stride_d) + b : 0 <= x_d <= max_d, 0 <= b < run }. Canonical: stride_d > 0,
// max_d >= 1, strides descend; low >= 0 and the last byte is below 2^62, so int64 never overflows.
struct StridedBytes {
  struct Level {
    int64_t stride;
    int64_t max;
  };
  int64_t low = 0;
  int64_t run = 1;
  int levels = 0;
  std::array<Level, kMaxRank> level{};

  int64_t high() const;  // one past the last byte
};

// One run.
StridedBytes run_of_bytes(int64_t low, int64_t run);

// The bytes of a piece whose elements are `unit` bytes. Nothing when an address leaves [0, 2^62).
// Dimensions of stride zero are dropped: they add no byte.
std::optional<StridedBytes> bytes_of_piece(const Piece& piece, int64_t unit);

// Whether two index vectors give the same byte, a dimension of stride zero apart.
//
// The questions below are bounded linear Diophantine problems. Equal and dividing strides, gcds and
// runs as wide as a stride are folded away, which leaves nothing or two unknowns for every layout a
// framework makes; two unknowns are solved as by Euclid. More are enumerated down to two, each step
// taking one from `budget`. When it reaches zero the answer is worthless: the caller must check it.
bool folds_over_itself(const StridedBytes& set, int64_t* budget);
bool overlap(const StridedBytes& a, const StridedBytes& b, int64_t* budget);

// A byte that is in both sets, given that they overlap.
int64_t common_byte(StridedBytes a, StridedBytes b, int64_t* budget);
// A byte that two index vectors of the set give, given that it folds over itself.
int64_t folded_byte(const StridedBytes& set, int64_t* budget);

}  // namespace wb
