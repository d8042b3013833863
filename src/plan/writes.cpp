#include "plan/writes.h"

#include <algorithm>

namespace wb::proof {
namespace {

uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// `count` rows of `length` bytes, `pitch` apart (0 for a single row), the lowest at `begin`.
struct Rows {
  uint64_t begin = 0;
  uint64_t length = 0;
  uint64_t count = 1;
  uint64_t pitch = 0;
  uint32_t group = 0;

  uint64_t end() const { return begin + (count - 1) * pitch + length; }
};

// A region as lines of one pitch: columns [begin, end) of lines [first, last].
struct Tile {
  Span columns;
  uint64_t first = 0;
  uint64_t last = 0;
  uint32_t group = 0;
};

// Rows that pass the end of a line go on in the next one.
void lay_tiles(std::span<const Rows> all, uint64_t pitch, std::vector<Tile>* tiles) {
  for (const Rows& rows : all) {
    const uint64_t column = rows.begin % pitch;
    const uint64_t line = rows.begin / pitch;
    const uint64_t more = rows.count - 1;
    const uint64_t end = column + rows.length;
    tiles->push_back({{column, std::min(end, pitch)}, line, line + more, rows.group});
    if (end <= pitch) continue;
    // Only a single row can be longer than a line and reach whole lines.
    const uint64_t whole = (end - pitch) / pitch;
    if (whole > 0) tiles->push_back({{0, pitch}, line + 1, line + whole, rows.group});
    const uint64_t rest = (end - pitch) % pitch;
    if (rest > 0) {
      tiles->push_back({{0, rest}, line + 1 + whole, line + 1 + whole + more, rows.group});
    }
  }
}

class Finder {
 public:
  Finder(Among among, Work* work) : among_(among), work_(*work) {}

  // A byte that two rows have, in one region.
  Result<std::optional<uint64_t>> find(std::vector<Rows> all, int depth = 0) {
    std::sort(all.begin(), all.end(),
              [](const Rows& a, const Rows& b) { return a.begin < b.begin; });
    for (size_t first = 0; first < all.size();) {
      uint64_t end = all[first].end();
      size_t last = first + 1;
      while (last < all.size() && all[last].begin < end) end = std::max(end, all[last++].end());
      WB_ASSIGN_OR_RETURN(const std::optional<uint64_t> byte,
                          among(std::span(all).subspan(first, last - first), depth));
      if (byte) return byte;
      first = last;
    }
    return std::optional<uint64_t>();
  }

 private:
  // Layouts have a few pitches; of more, the rest is taken apart at once.
  static constexpr int kMaxDepth = 16;

  static Status exhausted() { return Work::exhausted("proving that no byte is written twice"); }

  // Rows whose spans meet. The coarsest are taken apart until those that still meet have one pitch.
  Result<std::optional<uint64_t>> among(std::span<const Rows> all, int depth) {
    if (!work_.spend(all.size())) return exhausted();
    if (one_group(all)) return std::optional<uint64_t>();
    uint64_t widest = 0;
    bool alike = true;
    bool single = true;
    for (const Rows& rows : all) {
      if (rows.count == 1) continue;
      single = false;
      alike = alike && (widest == 0 || widest == rows.pitch) && rows.pitch >= rows.length;
      widest = std::max(widest, rows.pitch);
    }
    if (single) return single_rows(all);
    if (alike) return tiles_meet(all, widest);
    std::vector<Rows> apart;
    for (const Rows& rows : all) {
      const bool split = rows.count > 1 &&
                         (rows.pitch == widest || rows.pitch < rows.length || depth == kMaxDepth);
      if (!split) {
        apart.push_back(rows);
        continue;
      }
      if (!work_.spend(rows.count)) return exhausted();
      for (uint64_t i = 0; i < rows.count; ++i) {
        apart.push_back({rows.begin + i * rows.pitch, rows.length, 1, 0, rows.group});
      }
    }
    return find(std::move(apart), depth + 1);
  }

  bool one_group(std::span<const Rows> all) const {
    if (among_ == Among::kAll) {
      return all.size() == 1 && (all[0].count == 1 || all[0].pitch >= all[0].length);
    }
    return std::all_of(all.begin(), all.end(),
                       [&](const Rows& rows) { return rows.group == all.front().group; });
  }

  // Sorted by begin.
  std::optional<uint64_t> single_rows(std::span<const Rows> all) const {
    // The furthest end so far, and the furthest of all groups but that one's.
    Rows furthest = all[0];
    uint64_t others = 0;
    for (const Rows& rows : all.subspan(1)) {
      const bool same = among_ == Among::kGroups && rows.group == furthest.group;
      if (rows.begin < (same ? others : furthest.end())) return rows.begin;
      if (rows.end() > furthest.end()) {
        if (!same) others = furthest.end();
        furthest = rows;
      } else if (!same) {
        others = std::max(others, rows.end());
      }
    }
    return std::nullopt;
  }

  // Takes time in the tiles and in those that share columns.
  Result<std::optional<uint64_t>> tiles_meet(std::span<const Rows> all, uint64_t pitch) {
    std::vector<Tile> tiles;
    lay_tiles(all, pitch, &tiles);
    std::sort(tiles.begin(), tiles.end(),
              [](const Tile& a, const Tile& b) { return a.columns.begin < b.columns.begin; });
    std::vector<const Tile*> open;
    for (const Tile& tile : tiles) {
      std::erase_if(open, [&](const Tile* o) { return o->columns.end <= tile.columns.begin; });
      if (!work_.spend(1 + open.size())) return exhausted();
      for (const Tile* other : open) {
        if (other->last < tile.first || tile.last < other->first) continue;
        if (among_ == Among::kGroups && other->group == tile.group) continue;
        return std::optional(std::max(other->first, tile.first) * pitch + tile.columns.begin);
      }
      open.push_back(&tile);
    }
    return std::optional<uint64_t>();
  }

  const Among among_;
  Work& work_;
};

}  // namespace

Result<std::optional<ByteAddress>> written_twice(std::vector<Write>* writes, Among among,
                                                 Work* work) {
  std::stable_sort(writes->begin(), writes->end(), [](const Write& a, const Write& b) {
    return a.run->local_region < b.run->local_region;
  });
  for (size_t first = 0; first < writes->size();) {
    const uint32_t region = (*writes)[first].run->local_region;
    std::vector<Rows> all;
    size_t last = first;
    for (; last < writes->size() && (*writes)[last].run->local_region == region; ++last) {
      const Write& write = (*writes)[last];
      const bool single = write.run->count == 1;
      all.push_back({write.span.begin, write.run->length, write.run->count,
                     single ? 0 : magnitude(write.run->local_pitch), write.group});
    }
    WB_ASSIGN_OR_RETURN(const std::optional<uint64_t> byte,
                        Finder(among, work).find(std::move(all)));
    if (byte) return std::optional(ByteAddress{region, *byte});
    first = last;
  }
  return std::optional<ByteAddress>();
}

}  // namespace wb::proof
