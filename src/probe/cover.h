// Which elements of a buffer some pieces cover.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/worker_layout.h"

namespace wb::probe {

// A contiguous range of a buffer, in elements.
struct ElementRange {
  uint64_t first = 0;
  uint64_t count = 0;
};

class Cover {
 public:
  explicit Cover(uint64_t elements) : elements_(elements), words_((elements + 63) / 64) {}

  // The elements of `element` bytes that the piece's units of `unit` bytes take.
  void add(const Piece& piece, uint32_t unit, uint32_t element);
  // The maximal ranges that are covered, or those that are not.
  std::vector<ElementRange> ranges(bool covered) const;

 private:
  void set(uint64_t first, uint64_t count);
  bool test(uint64_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }

  const uint64_t elements_;
  std::vector<uint64_t> words_;
};

}  // namespace wb::probe
