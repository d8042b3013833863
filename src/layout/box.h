// Boxes: products over dimensions of arithmetic progressions, with exact set algebra.
//
// All arithmetic is overflow-checked; a box that exists (passed Box::make or came out of an
// operation on such boxes) has in-range coordinates, so later code may compute with them freely.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"

namespace wb {

inline constexpr int kMaxRank = 8;

// {start, start + step, ..., start + (count - 1) * step}. Canonical: count >= 1, step >= 1, and
// step is 1 when count is 1. Invariant: start >= 0 and the last value fits in int64.
struct Progression {
  int64_t start = 0;
  int64_t count = 1;
  int64_t step = 1;
  bool operator==(const Progression&) const = default;

  int64_t last() const { return start + (count - 1) * step; }
  bool contains(int64_t value) const {
    return value >= start && value <= last() && (value - start) % step == 0;
  }
  int64_t index_of(int64_t value) const { return (value - start) / step; }
};

// The common values of two progressions (a progression again, by the Chinese remainder theorem).
std::optional<Progression> intersect(const Progression& a, const Progression& b);

class Box {
 public:
  Box() = default;  // rank 0: the one element of a scalar

  // kInvalidArgument when a progression is empty, negative, overflows, or the rank exceeds
  // kMaxRank.
  static Result<Box> make(std::span<const Progression> dims);
  // [0, shape[d]) in each dimension. Each shape[d] >= 1.
  static Result<Box> whole(std::span<const int64_t> shape);

  int rank() const { return rank_; }
  const Progression& dim(int d) const { return dims_[static_cast<size_t>(d)]; }
  // The same box with dimension d replaced. `p` is canonical and keeps size() below 2^63 (any part
  // of dim(d) does).
  Box with_dim(int d, const Progression& p) const;
  // Number of elements. Fits in int64: make() refuses what does not.
  int64_t size() const;
  bool contains(std::span<const int64_t> coordinate) const;
  bool contains(const Box& other) const;
  bool operator==(const Box&) const = default;

 private:
  int rank_ = 0;
  std::array<Progression, kMaxRank> dims_{};  // unused dimensions stay default, so == is memberwise
};

// Boxes of different rank are of different tensors: they never meet.
std::optional<Box> intersect(const Box& a, const Box& b);
// a without b, as disjoint boxes, appended to `out`. Where b is dense relative to a, at most two
// boxes per dimension. Where b takes every k-th of a's values m times, at most 2 + min(m - 1, sum
// of (p - 1) over the prime factors p of k, with repetition) in that dimension.
void subtract(const Box& a, const Box& b, std::vector<Box>* out);
// How many boxes subtract() appends: for a caller that must bound it, because a large prime k and a
// large m (which only hostile input has) give many.
uint64_t subtract_count(const Box& a, const Box& b);

}  // namespace wb
