#include "plan/lower.h"

#include <array>
#include <string>

namespace wb {
namespace {

// One dimension of a share as both memories see it. count >= 2, local > 0.
struct Axis {
  int64_t count = 0;
  int64_t remote = 0;  // bytes from one element to the next
  int64_t local = 0;
};

// A share as memory: `length` contiguous bytes on both sides, repeated along `axes` (widest local
// step first).
struct Shape {
  int64_t remote = 0;  // of the element that lies lowest locally
  int64_t local = 0;
  int64_t length = 0;
  int rank = 0;
  std::array<Axis, kMaxRank> axes{};

  void insert(const Axis& axis) {
    int a = rank++;
    for (; a > 0 && at(a - 1).local < axis.local; --a) at(a) = at(a - 1);
    at(a) = axis;
  }
  void erase(int a) {
    for (--rank; a < rank; ++a) at(a) = at(a + 1);
  }
  Axis& at(int a) { return axes[static_cast<size_t>(a)]; }
};

// Piece indices stay inside the piece and the piece inside its buffer (check_layout), so none of
// the products overflows.
Shape shape_of(const Share& share, uint32_t unit_bytes) {
  Shape shape;
  shape.remote = share.from->offset;
  shape.local = share.to->offset;
  shape.length = unit_bytes;
  for (int d = 0; d < share.box.rank(); ++d) {
    const Progression& part = share.box.dim(d);
    const Progression& from = share.from->box.dim(d);
    const Progression& to = share.to->box.dim(d);
    const int64_t from_stride = share.from->stride[static_cast<size_t>(d)];
    const int64_t to_stride = share.to->stride[static_cast<size_t>(d)];
    if (from.count > 1) shape.remote += from.index_of(part.start) * from_stride;
    if (to.count > 1) shape.local += to.index_of(part.start) * to_stride;
    if (part.count == 1) continue;
    Axis axis{part.count, part.step / from.step * from_stride, part.step / to.step * to_stride};
    if (axis.local < 0) {
      shape.remote += (axis.count - 1) * axis.remote;
      shape.local += (axis.count - 1) * axis.local;
      axis.remote = -axis.remote;
      axis.local = -axis.local;
    }
    shape.insert(axis);
  }
  return shape;
}

// Folds axes into the contiguous length, then neighbouring axes that step alike into one.
void collapse(Shape* shape) {
  for (int a = shape->rank - 1; a >= 0; --a) {
    const Axis& axis = shape->at(a);
    if (axis.local == shape->length && axis.remote == shape->length) {
      shape->length *= axis.count;
      shape->erase(a);
    }
  }
  for (int a = shape->rank - 2; a >= 0; --a) {
    const Axis& outer = shape->at(a);
    Axis& inner = shape->at(a + 1);
    if (outer.local == inner.local * inner.count && outer.remote == inner.remote * inner.count) {
      inner.count *= outer.count;
      shape->erase(a);
    }
  }
}

// Takes the axis with most rows out of the shape: it becomes the rows of every run.
Axis take_rows(Shape* shape) {
  if (shape->rank == 0) return Axis{1, 0, 0};
  int most = 0;
  for (int a = 1; a < shape->rank; ++a) {
    if (shape->at(a).count >= shape->at(most).count) {
      most = a;
    }
  }
  const Axis rows = shape->at(most);
  shape->erase(most);
  return rows;
}

}  // namespace

Status lower_share(const Share& share, uint32_t unit_bytes, const Placement& from,
                   const Placement& to, std::vector<Run>* runs) {
  Shape shape = shape_of(share, unit_bytes);
  collapse(&shape);
  const Axis rows = take_rows(&shape);

  uint64_t count = 1;
  for (int a = 0; a < shape.rank; ++a) {
    // Each factor is at most the number of elements, which fits in int64; stop before it matters.
    const auto factor = static_cast<uint64_t>(shape.at(a).count);
    if (factor > kMaxRuns / count) count = kMaxRuns + 1;
    if (count > kMaxRuns) break;
    count *= factor;
  }
  if (count > kMaxRuns || runs->size() > kMaxRuns - count) {
    return Status(Code::kUnsupported,
                  "the two layouts cut the weights so finely against each other that more than " +
                      std::to_string(kMaxRuns) + " runs would be needed");
  }

  Run run;
  run.remote_region = from.region;
  run.local_region = to.region;
  run.length = static_cast<uint64_t>(shape.length);
  run.count = static_cast<uint64_t>(rows.count);
  run.remote_pitch = rows.remote;
  run.local_pitch = rows.local;
  int64_t remote = static_cast<int64_t>(from.offset) + shape.remote;
  int64_t local = static_cast<int64_t>(to.offset) + shape.local;
  std::array<int64_t, kMaxRank> index{};
  for (;;) {
    run.remote_offset = static_cast<uint64_t>(remote);
    run.local_offset = static_cast<uint64_t>(local);
    runs->push_back(run);
    int a = shape.rank - 1;
    for (; a >= 0; --a) {
      const Axis& axis = shape.at(a);
      int64_t& i = index[static_cast<size_t>(a)];
      remote += axis.remote;
      local += axis.local;
      if (++i < axis.count) break;
      remote -= axis.remote * axis.count;
      local -= axis.local * axis.count;
      i = 0;
    }
    if (a < 0) return Status();
  }
}

}  // namespace wb
