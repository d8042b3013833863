#include "plan/share.h"

#include <tuple>

namespace wb {
namespace {

auto key(const Progression& p) { return std::tuple(p.start, p.count, p.step); }

}  // namespace

bool piece_before(const Piece& a, const Piece& b) {
  if (a.tensor != b.tensor) return a.tensor < b.tensor;
  if (a.box.rank() != b.box.rank()) return a.box.rank() < b.box.rank();
  for (int d = 0; d < a.box.rank(); ++d) {
    if (a.box.dim(d) != b.box.dim(d)) return key(a.box.dim(d)) < key(b.box.dim(d));
  }
  return std::tie(a.buffer, a.offset, a.stride) < std::tie(b.buffer, b.offset, b.stride);
}

}  // namespace wb
