#include "probe/homes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace wb::probe {
namespace {

// Units that are counted at once.
constexpr int64_t kSlabUnits = int64_t{1} << 24;
constexpr uint8_t kCast = 4;  // a flag above the saturated count 0, 1, 2

struct Slab {
  const Progression rows;          // of the slab
  std::span<const int64_t> shape;  // of the tensor
  std::vector<uint8_t>* counts;    // per unit, row-major
};

template <typename Touch>
void for_each_unit(const Slab& slab, const Box& whole, Touch touch) {
  Box box = whole;
  if (box.rank() > 0) {
    const auto rows = intersect(box.dim(0), slab.rows);
    if (!rows) return;
    box = box.with_dim(0, *rows);
  }
  std::array<int64_t, kMaxRank> weight{};
  int64_t next = 1, at = 0;
  for (int d = box.rank() - 1; d >= 0; --d) {
    weight[static_cast<size_t>(d)] = next;
    next *= slab.shape[static_cast<size_t>(d)];
    at += (box.dim(d).start - (d == 0 ? slab.rows.start : 0)) * weight[static_cast<size_t>(d)];
  }
  std::array<int64_t, kMaxRank> index{};
  for (;;) {
    touch(&(*slab.counts)[static_cast<size_t>(at)]);
    int d = box.rank() - 1;
    for (; d >= 0; --d) {
      const auto dim = static_cast<size_t>(d);
      const Progression& p = box.dim(d);
      at += p.step * weight[dim];
      if (++index[dim] < p.count) break;
      at -= p.step * p.count * weight[dim];
      index[dim] = 0;
    }
    if (d < 0) return;
  }
}

void count_slab(const Slab& slab, std::span<const Box> copies, std::span<const Box> cast,
                Homes* homes) {
  for (const Box& box : copies) {
    for_each_unit(slab, box, [](uint8_t* n) { *n = static_cast<uint8_t>(*n == 0 ? 1 : 2); });
  }
  for (const Box& box : cast) {
    for_each_unit(slab, box, [](uint8_t* n) { *n |= kCast; });
  }
  for (const uint8_t n : *slab.counts) {
    homes->one += n % kCast == 1 ? 1 : 0;
    homes->more += n % kCast == 2 ? 1 : 0;
    homes->cast += n == kCast ? 1 : 0;
  }
}

}  // namespace

Homes count_homes(std::span<const int64_t> shape, std::span<const Box> copies,
                  std::span<const Box> cast) {
  Homes homes;
  homes.elements = 1;
  for (const int64_t extent : shape) homes.elements *= static_cast<uint64_t>(extent);
  if (homes.elements == 0 || (copies.empty() && cast.empty())) {
    homes.none = homes.elements;
    return homes;
  }
  if (copies.size() + cast.size() == 1) {
    homes.one = copies.empty() ? 0 : static_cast<uint64_t>(copies[0].size());
    homes.cast = cast.empty() ? 0 : static_cast<uint64_t>(cast[0].size());
    homes.none = homes.elements - homes.one;
    return homes;
  }
  // Mostly the boxes are disjoint parts, few in number.
  constexpr size_t kFew = 64;
  bool disjoint = copies.size() <= kFew && cast.empty();
  for (size_t i = 0; disjoint && i < copies.size(); ++i) {
    for (size_t j = 0; disjoint && j < i; ++j) disjoint = !intersect(copies[i], copies[j]);
  }
  if (disjoint) {
    for (const Box& box : copies) homes.one += static_cast<uint64_t>(box.size());
    homes.none = homes.elements - homes.one;
    return homes;
  }
  const int64_t rows = shape.empty() ? 1 : shape[0];
  const int64_t row = static_cast<int64_t>(homes.elements) / rows;
  const int64_t step = std::max<int64_t>(1, kSlabUnits / row);
  std::vector<uint8_t> counts;
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t here = std::min(step, rows - first);
    counts.assign(static_cast<size_t>(here * row), 0);
    count_slab({{first, here, 1}, shape, &counts}, copies, cast, &homes);
  }
  homes.none = homes.elements - homes.one - homes.more;
  return homes;
}

}  // namespace wb::probe
