#include "probe/compare.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "probe/sorted_axes.h"

namespace wb::probe {
namespace {

struct Axis {
  int64_t count = 1;
  int64_t have = 0;  // strides in bytes
  int64_t want = 0;
};

// `Size` 0: rows of `bytes` bytes; else elements of that size, `count` of them.
template <size_t Size>
bool row_equal(const std::byte* have, const std::byte* want, const Axis& axis) {
  bool equal = true;
  constexpr int64_t kBatch = 256;
  for (int64_t done = 0; done < axis.count && equal; done += kBatch) {
    const int64_t end = std::min(axis.count, done + kBatch);
    for (int64_t i = done; i < end; ++i) {
      equal &= std::memcmp(have + i * axis.have, want + i * axis.want, Size) == 0;
    }
  }
  return equal;
}

bool inner_equal(const std::byte* have, const std::byte* want, const Axis& axis, size_t element) {
  const auto size = static_cast<int64_t>(element);
  if (axis.count == 1 || (axis.have == size && axis.want == size)) {
    return std::memcmp(have, want, static_cast<size_t>(axis.count) * element) == 0;
  }
  switch (element) {
    case 1:
      return row_equal<1>(have, want, axis);
    case 2:
      return row_equal<2>(have, want, axis);
    case 3:
      return row_equal<3>(have, want, axis);
    case 4:
      return row_equal<4>(have, want, axis);
    default:
      return row_equal<8>(have, want, axis);
  }
}

}  // namespace

bool holds(const Piece& piece, const TensorInfo& info, const std::byte* data, uint32_t element,
           const View& view) {
  // In a packed type a unit of several bytes is one step of the box and as many of the view.
  const DTypeInfo& type = dtype_info(info.dtype);
  const bool packed = type.unit_elements != 1;
  const size_t unit = packed ? type.unit_bytes : element;
  // The innermost loop walks the buffer in its order.
  SortedAxes<Axis> axes;
  const std::byte* want = view.data;
  for (int d = 0; d < piece.box.rank(); ++d) {
    const auto dim = static_cast<size_t>(d);
    const Progression& p = piece.box.dim(d);
    const bool counts_units = packed && d == piece.box.rank() - 1;
    const int64_t stride = view.stride[dim] * (counts_units ? type.unit_bytes : 1);
    want += p.start * stride;
    if (p.count == 1) continue;
    axes.insert({p.count, piece.stride[dim], p.step * stride},
                [](const Axis& a, const Axis& b) { return std::abs(a.have) < std::abs(b.have); });
  }
  const std::byte* have = data + piece.offset;
  const size_t used = axes.size();
  const Axis inner = used == 0 ? Axis() : axes[0];
  std::array<int64_t, kMaxRank> at{};
  for (;;) {
    if (!inner_equal(have, want, inner, unit)) return false;
    size_t axis = 1;
    for (; axis < used; ++axis) {
      have += axes[axis].have;
      want += axes[axis].want;
      if (++at[axis] < axes[axis].count) break;
      have -= axes[axis].have * axes[axis].count;
      want -= axes[axis].want * axes[axis].count;
      at[axis] = 0;
    }
    if (axis >= used) return true;
  }
}

}  // namespace wb::probe
