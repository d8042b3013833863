#include "plan/merge.h"

#include <algorithm>
#include <tuple>

namespace wb {
namespace {

bool same_regions(const Run& a, const Run& b) {
  return a.remote_region == b.remote_region && a.local_region == b.local_region;
}

bool same_pitch(const Run& a, const Run& b) {
  return a.remote_pitch == b.remote_pitch && a.local_pitch == b.local_pitch;
}

// Runs mostly come in order already.
template <typename Before>
void sort_runs(std::vector<Run>* runs, Before before) {
  if (!std::is_sorted(runs->begin(), runs->end(), before)) {
    std::sort(runs->begin(), runs->end(), before);
  }
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

int64_t distance(uint64_t from, uint64_t to) { return static_cast<int64_t>(to - from); }

// b's rows follow a's at a's pitch.
bool goes_on_below(const Run& a, const Run& b) {
  const auto rows = static_cast<int64_t>(a.count);
  return same_regions(a, b) && a.length == b.length && (b.count == 1 || same_pitch(a, b)) &&
         distance(a.remote_offset, b.remote_offset) == a.remote_pitch * rows &&
         distance(a.local_offset, b.local_offset) == a.local_pitch * rows;
}

// Two rows always follow each other at one pitch, which says nothing about them; and what lies
// further apart than this many times its length is no row structure but the same tensor of some
// other layer, which is read better in its own place.
constexpr uint64_t kFewestRows = 3;
constexpr uint64_t kWidestPitch = 64;

bool near(const Run& run, int64_t pitch) {
  const auto distance = static_cast<uint64_t>(pitch < 0 ? -pitch : pitch);
  return distance / run.length <= kWidestPitch;
}

// As many single rows as follow each other at one pitch from runs[first] on, as one run.
Run rows_from(const std::vector<Run>& runs, size_t first) {
  Run rows = runs[first];
  if (first + 1 == runs.size()) return rows;
  const Run& second = runs[first + 1];
  rows.remote_pitch = distance(rows.remote_offset, second.remote_offset);
  rows.local_pitch = distance(rows.local_offset, second.local_offset);
  if (!near(rows, rows.remote_pitch) || !near(rows, rows.local_pitch)) return runs[first];
  for (size_t i = first + 1; i < runs.size(); ++i) {
    if (runs[i].count != 1 || !goes_on_below(rows, runs[i])) break;
    ++rows.count;
  }
  return rows.count < kFewestRows ? runs[first] : rows;
}

// Rows of one shape lie in local order even where remote order mixes them with others (the query
// rows of an interleaved qkv), so they are looked for in that order.
void join_rows(std::vector<Run>* runs) {
  sort_runs(runs, [](const Run& a, const Run& b) {
    const auto key = [](const Run& r) {
      return std::tie(r.remote_region, r.local_region, r.length, r.local_offset);
    };
    return key(a) < key(b);
  });
  size_t kept = 0;
  for (size_t i = 0; i < runs->size();) {
    Run run = (*runs)[i];
    if (run.count == 1) {
      run = rows_from(*runs, i);
      i += run.count;
    } else {
      ++i;
    }
    for (; run.count > 1 && i < runs->size() && goes_on_below(run, (*runs)[i]); ++i) {
      run.count += (*runs)[i].count;
    }
    (*runs)[kept++] = run;
  }
  runs->resize(kept);
}

// What continues a run locally is its neighbour in local order, since no two runs write the same
// byte. A joined run may have become the continuation of the one before it.
void join_columns(std::vector<Run>* runs) {
  sort_runs(runs, [](const Run& a, const Run& b) {
    return std::tie(a.local_region, a.local_offset) < std::tie(b.local_region, b.local_offset);
  });
  size_t kept = 0;
  for (size_t i = 0; i < runs->size(); ++i) {
    (*runs)[kept++] = (*runs)[i];
    while (kept > 1 && join_sideways(&(*runs)[kept - 2], (*runs)[kept - 1])) --kept;
  }
  runs->resize(kept);
}

}  // namespace

void merge_runs(std::vector<Run>* runs) {
  join_columns(runs);
  join_rows(runs);
  join_columns(runs);
  const auto address = [](const Run& r) {
    return std::tie(r.remote_region, r.remote_offset, r.local_region, r.local_offset);
  };
  sort_runs(runs, [&](const Run& a, const Run& b) { return address(a) < address(b); });
}

}  // namespace wb
