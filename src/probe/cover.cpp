#include "probe/cover.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "probe/sorted_axes.h"

namespace wb::probe {
namespace {

// A loop over a piece's elements, strides in elements.
struct Axis {
  int64_t count = 1;
  int64_t stride = 0;
};

}  // namespace

void Cover::set(uint64_t first, uint64_t count) {
  const uint64_t end = first + count;
  while (first < end) {
    const uint64_t bit = first % 64;
    const uint64_t here = std::min<uint64_t>(64 - bit, end - first);
    const uint64_t ones = here == 64 ? ~uint64_t{0} : (uint64_t{1} << here) - 1;
    words_[first / 64] |= ones << bit;
    first += here;
  }
}

void Cover::add(const Piece& piece, uint32_t unit, uint32_t element) {
  SortedAxes<Axis> axes;
  for (int d = 0; d < piece.box.rank(); ++d) {
    const int64_t count = piece.box.dim(d).count;
    if (count == 1) continue;
    axes.insert(
        {count, piece.stride[static_cast<size_t>(d)] / element},
        [](const Axis& a, const Axis& b) { return std::abs(a.stride) < std::abs(b.stride); });
  }
  const size_t used = axes.size();
  // Neighbouring elements are set together.
  int64_t run = unit / element;
  size_t outer = 0;
  while (outer < used && axes[outer].stride == run) run *= axes[outer++].count;
  int64_t position = piece.offset / element;
  std::array<int64_t, kMaxRank> at{};
  for (;;) {
    set(static_cast<uint64_t>(position), static_cast<uint64_t>(run));
    size_t axis = outer;
    for (; axis < used; ++axis) {
      position += axes[axis].stride;
      if (++at[axis] < axes[axis].count) break;
      position -= axes[axis].stride * axes[axis].count;
      at[axis] = 0;
    }
    if (axis >= used) return;
  }
}

std::vector<ElementRange> Cover::ranges(bool covered) const {
  std::vector<ElementRange> found;
  for (uint64_t i = 0; i < elements_;) {
    const uint64_t word = covered ? words_[i / 64] : ~words_[i / 64];
    const uint64_t rest = word >> (i % 64);
    if (rest == 0) {
      i = (i / 64 + 1) * 64;
      continue;
    }
    i += static_cast<uint64_t>(std::countr_zero(rest));
    if (i >= elements_) break;
    const uint64_t first = i;
    while (i < elements_) {
      const uint64_t other = (covered ? ~words_[i / 64] : words_[i / 64]) >> (i % 64);
      if (other != 0) {
        i += static_cast<uint64_t>(std::countr_zero(other));
        break;
      }
      i = (i / 64 + 1) * 64;
    }
    i = std::min(i, elements_);
    found.push_back({first, i - first});
  }
  return found;
}

}  // namespace wb::probe
