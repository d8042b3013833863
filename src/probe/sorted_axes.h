// The loops over a piece's elements, in the order of a buffer.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "layout/box.h"

namespace wb::probe {

// Up to kMaxRank axes, kept in order.
template <typename Axis>
class SortedAxes {
 public:
  template <typename Less>
  void insert(const Axis& axis, Less less) {
    size_t at = used_++;
    for (; at > 0 && less(axis, axes_[at - 1]); --at) axes_[at] = axes_[at - 1];
    axes_[at] = axis;
  }
  size_t size() const { return used_; }
  const Axis& operator[](size_t i) const { return axes_[i]; }

 private:
  std::array<Axis, kMaxRank> axes_{};
  size_t used_ = 0;
};

}  // namespace wb::probe
