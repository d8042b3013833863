#include "plan/lower.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>

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

auto by_address(const Run& run) {
  return std::tie(run.remote_region, run.remote_offset, run.local_region, run.local_offset);
}

bool same_regions(const Run& a, const Run& b) {
  return a.remote_region == b.remote_region && a.local_region == b.local_region;
}

bool same_pitch(const Run& a, const Run& b) {
  return a.remote_pitch == b.remote_pitch && a.local_pitch == b.local_pitch;
}

// Rows that touch on both sides are one row.
void flatten(Run* run) {
  const auto length = static_cast<int64_t>(run->length);
  if (run->count > 1 && run->remote_pitch == length && run->local_pitch == length) {
    run->length *= run->count;
    run->count = 1;
  }
  if (run->count == 1) run->remote_pitch = run->local_pitch = 0;
}

// b's rows go on where a's rows end.
bool join_sideways(Run* a, const Run& b) {
  if (!same_regions(*a, b) || a->count != b.count || !same_pitch(*a, b)) return false;
  if (a->remote_offset + a->length != b.remote_offset) return false;
  if (a->local_offset + a->length != b.local_offset) return false;
  a->length += b.length;
  flatten(a);
  return true;
}

// b's rows follow a's at a's distance.
bool join_below(Run* a, const Run& b) {
  if (!same_regions(*a, b) || a->length != b.length) return false;
  const auto remote = static_cast<int64_t>(b.remote_offset - a->remote_offset);
  const auto local = static_cast<int64_t>(b.local_offset - a->local_offset);
  Run joined = *a;
  if (a->count == 1) {
    joined.remote_pitch = remote;
    joined.local_pitch = local;
  }
  const auto rows = static_cast<int64_t>(a->count);
  if (remote != joined.remote_pitch * rows || local != joined.local_pitch * rows) return false;
  if (b.count > 1 && !same_pitch(joined, b)) return false;
  joined.count += b.count;
  *a = joined;
  flatten(a);
  return true;
}

// One pass over neighbours. A joined run may have become the continuation of the one before it.
template <typename Join>
void join_neighbours(std::vector<Run>* runs, Join join) {
  size_t kept = 0;
  for (size_t i = 0; i < runs->size(); ++i) {
    (*runs)[kept++] = (*runs)[i];
    while (kept > 1 && join(&(*runs)[kept - 2], (*runs)[kept - 1])) --kept;
  }
  runs->resize(kept);
}

void sort_by_address(std::vector<Run>* runs) {
  std::sort(runs->begin(), runs->end(),
            [](const Run& a, const Run& b) { return by_address(a) < by_address(b); });
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

void merge_runs(std::vector<Run>* runs) {
  sort_by_address(runs);
  join_neighbours(runs, join_sideways);
  // Rows of one shape lie in local order even where remote order mixes them with others (the query
  // rows of an interleaved qkv).
  std::sort(runs->begin(), runs->end(), [](const Run& a, const Run& b) {
    const auto key = [](const Run& r) {
      return std::tie(r.remote_region, r.local_region, r.length, r.local_offset);
    };
    return key(a) < key(b);
  });
  join_neighbours(runs, join_below);
  sort_by_address(runs);
  join_neighbours(runs, join_sideways);
}

}  // namespace wb
