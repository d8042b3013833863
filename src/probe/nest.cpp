#include "probe/nest.h"

#include <algorithm>
#include <tuple>

namespace wb::probe {
namespace {

constexpr size_t kStages = kMaxLevels;

// How `b` follows `a`: a level of count 1. False when they differ in more than one dimension.
bool difference(const std::array<int64_t, kMaxRank>& a, const std::array<int64_t, kMaxRank>& b,
                Level* level) {
  level->dim = -1;
  level->step = 0;
  for (int d = 0; d < kMaxRank; ++d) {
    const int64_t step = b[static_cast<size_t>(d)] - a[static_cast<size_t>(d)];
    if (step == 0) continue;
    if (level->dim >= 0) return false;
    level->dim = d;
    level->step = step;
  }
  return true;
}

bool same_levels(const Nest& a, const Nest& b) {
  return a.levels == b.levels &&
         std::equal(a.level.begin(), a.level.begin() + a.levels, b.level.begin());
}

// Adds `next` as one more of `pending`, if it follows at the pending distance.
template <typename Pending>
bool extend(Pending* pending, const std::array<int64_t, kMaxRank>& coord, int64_t position) {
  Level& by = pending->by;
  const Nest& first = pending->nest;
  if (by.count == 1) {
    Level level;
    if (!difference(first.coord, coord, &level)) return false;
    level.pitch = position - first.position;
    level.count = 2;
    by = level;
    return true;
  }
  if (position != first.position + by.pitch * by.count) return false;
  for (int d = 0; d < kMaxRank; ++d) {
    const auto dim = static_cast<size_t>(d);
    const int64_t want = first.coord[dim] + (d == by.dim ? by.step * by.count : 0);
    if (coord[dim] != want) return false;
  }
  ++by.count;
  return true;
}

// The pending nests as one.
Nest merged(const Nest& nest, const Level& by) {
  Nest all = nest;
  if (by.count == 1) return all;
  if (all.levels > 0) {
    Level& last = all.level[static_cast<size_t>(all.levels - 1)];
    if (last.dim == by.dim && by.step == last.step * last.count &&
        by.pitch == last.pitch * last.count) {
      last.count *= by.count;
      return all;
    }
  }
  all.level[static_cast<size_t>(all.levels++)] = by;
  return all;
}

// Nests that may fold stand together, in order of their positions.
bool before(const Nest& a, const Nest& b) {
  if (a.levels != b.levels) return a.levels < b.levels;
  for (int i = 0; i < a.levels; ++i) {
    const Level& x = a.level[static_cast<size_t>(i)];
    const Level& y = b.level[static_cast<size_t>(i)];
    if (x == y) continue;
    return std::tie(x.count, x.pitch, x.step, x.dim) < std::tie(y.count, y.pitch, y.step, y.dim);
  }
  return a.position < b.position;
}

}  // namespace

int64_t Nest::size() const {
  int64_t size = 1;
  for (int i = 0; i < levels; ++i) size *= level[static_cast<size_t>(i)].count;
  return size;
}

void NestBuilder::start(int64_t position, const std::array<int64_t, kMaxRank>& coord, int dim,
                        int64_t step, int64_t count) {
  flush_leaf();
  leaf_.nest = Nest();
  leaf_.nest.position = position;
  leaf_.nest.coord = coord;
  leaf_.by = {count, 1, step, dim};
}

void NestBuilder::add(int64_t position, const std::array<int64_t, kMaxRank>& coord, int dim,
                      int64_t step, int64_t count) {
  period_.length = 0;
  Level& by = leaf_.by;
  if (by.count == 0) return start(position, coord, dim, step, count);
  if (count == 1) {
    if (!extend(&leaf_, coord, position)) start(position, coord, -1, 0, 1);
    return;
  }
  // A longer run joins only what goes on in the same way: its first element alone might by chance
  // continue another pattern, and the rest would then begin in the middle of a period.
  const Nest before = leaf_.nest;
  const Level by_before = by;
  if (extend(&leaf_, coord, position) && by.pitch == 1 && by.dim == dim && by.step == step) {
    by.count += count - 1;
    return;
  }
  leaf_.nest = before;
  by = by_before;
  start(position, coord, dim, step, count);
}

void NestBuilder::repeat(int64_t times) {
  // What is pending below the loop that turned has only just begun, as it had a period ago.
  const auto advance = [&](Pending* pending) {
    if (pending->by.count == 0) return;
    pending->nest.position += period_.length * times;
    if (period_.dim >= 0) {
      pending->nest.coord[static_cast<size_t>(period_.dim)] += period_.step * times;
    }
  };
  advance(&leaf_);
  for (size_t stage = 0; stage < period_.stage; ++stage) advance(&stages_[stage]);
  stages_[period_.stage].by.count += times;
  period_.length = 0;
}

void NestBuilder::flush_leaf() {
  if (leaf_.by.count == 0) return;
  const Nest nest = merged(leaf_.nest, leaf_.by);
  leaf_.by.count = 0;
  push(0, nest);
}

void NestBuilder::push(size_t stage, const Nest& nest) {
  if (stage == kStages || nest.levels == kMaxLevels) {
    done_.push_back(nest);
    return;
  }
  if (stage == stages_.size()) stages_.push_back({});
  Pending& pending = stages_[stage];
  if (pending.by.count != 0) {
    if (same_levels(pending.nest, nest) && extend(&pending, nest.coord, nest.position)) {
      const Level& by = pending.by;
      if (by.count >= 3) period_ = {stage, by.pitch, by.step, by.dim};
      return;
    }
    flush(stage);
  }
  // flush() may have moved the stages.
  stages_[stage].nest = nest;
  stages_[stage].by = Level();
}

void NestBuilder::flush(size_t stage) {
  Pending& pending = stages_[stage];
  if (pending.by.count == 0) return;
  const Nest nest = merged(pending.nest, pending.by);
  pending.by.count = 0;
  push(stage + 1, nest);
}

std::vector<Nest> NestBuilder::take() {
  flush_leaf();
  for (size_t stage = 0; stage < stages_.size(); ++stage) flush(stage);
  stages_.clear();
  return std::move(done_);
}

std::vector<Nest> fold(std::vector<Nest> nests) {
  for (size_t last = 0; nests.size() > 1 && nests.size() != last;) {
    last = nests.size();
    std::sort(nests.begin(), nests.end(), before);
    NestBuilder builder;
    for (const Nest& nest : nests) builder.add(nest);
    nests = builder.take();
  }
  return nests;
}

}  // namespace wb::probe
