#include "plan/refine.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace wb {
namespace {

bool box_before(const Box& a, const Box& b) {
  for (int d = 0; d < a.rank() && d < b.rank(); ++d) {
    const Progression& p = a.dim(d);
    const Progression& q = b.dim(d);
    if (p != q) return std::tie(p.start, p.count, p.step) < std::tie(q.start, q.count, q.step);
  }
  return a.rank() < b.rank();
}

Box line(const Progression& p) { return *Box::make(std::span(&p, 1)); }

bool is_dense(const Progression& p) { return p.step == 1; }

// A part of the tensor below one index of the outer dimensions.
struct Sub {
  std::array<Progression, kMaxRank> dims{};  // only those at and inside the current dimension count
  uint32_t holders = 0;
  uint32_t needers = 0;
  bool operator==(const Sub&) const = default;
};

using Subs = std::vector<Sub>;

class Refiner {
 public:
  Refiner(std::span<const int64_t> shape, std::span<const Tile> held, std::span<const Tile> needed,
          SetTable* sets, Work* work)
      : rank_(static_cast<int>(shape.size())),
        held_(held),
        needed_(needed),
        sets_(*sets),
        work_(*work) {}

  Result<std::vector<Cell>> run() {
    std::vector<uint32_t> tiles;
    for (uint32_t i = 0; i < held_.size() + needed_.size(); ++i) tiles.push_back(i);
    Subs subs;
    if (!needed_.empty() && !cells(0, tiles, &subs)) return Work::exhausted("cutting a tensor");
    std::vector<Cell> out;
    for (const Sub& sub : subs) {
      const auto dims = std::span(sub.dims).first(static_cast<size_t>(rank_));
      out.push_back({*Box::make(dims), sub.holders, sub.needers});
    }
    std::sort(out.begin(), out.end(),
              [](const Cell& a, const Cell& b) { return box_before(a.box, b.box); });
    return out;
  }

 private:
  // Tiles are numbered: those held, then those needed.
  bool is_need(uint32_t tile) const { return tile >= held_.size(); }
  const Tile& tile(uint32_t t) const { return is_need(t) ? needed_[t - held_.size()] : held_[t]; }

  // Appends the parts of what `tiles` have, from dimension d inward. False: no more work allowed.
  bool cells(int d, const std::vector<uint32_t>& tiles, Subs* out) {
    if (!work_.spend(1 + tiles.size())) return false;
    if (d == rank_) {
      out->push_back(Sub{{}, union_of(tiles, false), union_of(tiles, true)});
      return true;
    }
    std::vector<Progression> parts;
    if (!partition(d, tiles, &parts)) return false;
    std::vector<uint32_t> order = tiles;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(tile(a).box.dim(d).start, a) < std::pair(tile(b).box.dim(d).start, b);
    });
    std::vector<std::pair<Progression, Subs>> merged;
    std::vector<uint32_t> open;  // tiles that have begun and may not have ended
    std::vector<uint32_t> inside;
    size_t next = 0;
    for (const Progression& part : parts) {
      for (; next < order.size() && tile(order[next]).box.dim(d).start <= part.start; ++next) {
        open.push_back(order[next]);
      }
      std::erase_if(open, [&](uint32_t t) { return tile(t).box.dim(d).last() < part.start; });
      inside.clear();
      bool wanted = false;
      for (const uint32_t t : open) {
        if (!tile(t).box.dim(d).contains(part.start)) continue;
        inside.push_back(t);
        wanted = wanted || is_need(t);
      }
      if (!work_.spend(1 + open.size())) return false;
      if (!wanted) continue;
      std::sort(inside.begin(), inside.end());
      Subs subs;
      if (!cells(d + 1, inside, &subs)) return false;
      append(part, std::move(subs), &merged);
    }
    for (auto& [part, subs] : merged) {
      for (Sub& sub : subs) {
        sub.dims[static_cast<size_t>(d)] = part;
        out->push_back(sub);
      }
    }
    return true;
  }

  // Continues an earlier part of equal content, if one ends where this one goes on.
  static void append(const Progression& part, Subs subs,
                     std::vector<std::pair<Progression, Subs>>* merged) {
    // Interleaved parts take turns: the one to continue is among the last few.
    constexpr size_t kLookBack = 16;
    const size_t stop = merged->size() > kLookBack ? merged->size() - kLookBack : 0;
    for (size_t i = merged->size(); i > stop; --i) {
      auto& [before, content] = (*merged)[i - 1];
      const int64_t step = part.count > 1 ? part.step : before.count > 1 ? before.step : 1;
      if (before.count > 1 && before.step != step) continue;
      if (part.start - before.last() != step || content != subs) continue;
      before = {before.start, before.count + part.count, step};
      return;
    }
    merged->emplace_back(part, std::move(subs));
  }

  // Disjoint parts of dimension d, by start, each inside or outside of every tile.
  bool partition(int d, const std::vector<uint32_t>& tiles, std::vector<Progression>* parts) {
    std::vector<int64_t> bounds;
    std::vector<Progression> strided;
    for (const uint32_t t : tiles) {
      const Progression& p = tile(t).box.dim(d);
      bounds.push_back(p.start);
      bounds.push_back(p.last() + 1);
      if (!is_dense(p)) strided.push_back(p);
    }
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    const auto before = [](const Progression& a, const Progression& b) {
      return std::tie(a.start, a.count, a.step) < std::tie(b.start, b.count, b.step);
    };
    std::sort(strided.begin(), strided.end(), before);
    strided.erase(std::unique(strided.begin(), strided.end()), strided.end());
    std::vector<Box> pieces;
    std::vector<Box> next;
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
      const Progression whole{bounds[i], bounds[i + 1] - bounds[i], 1};
      pieces.assign(1, line(whole));
      for (const Progression& p : strided) {
        if (p.start > whole.last() || p.last() < whole.start) continue;
        next.clear();
        for (const Box& piece : pieces) {
          const auto common = intersect(piece, line(p));
          if (!common || *common == piece) {
            next.push_back(piece);
            continue;
          }
          if (!work_.spend(subtract_count(piece, *common))) return false;
          next.push_back(*common);
          subtract(piece, *common, &next);
        }
        if (!work_.spend(pieces.size())) return false;
        pieces.swap(next);
      }
      for (const Box& piece : pieces) parts->push_back(piece.dim(0));
    }
    std::sort(parts->begin(), parts->end(), before);
    return work_.spend(parts->size());
  }

  uint32_t union_of(const std::vector<uint32_t>& tiles, bool needs) {
    std::vector<uint32_t> workers;
    for (const uint32_t t : tiles) {
      if (is_need(t) != needs) continue;
      const std::vector<uint32_t>& more = tile(t).workers;
      workers.insert(workers.end(), more.begin(), more.end());
    }
    std::sort(workers.begin(), workers.end());
    workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
    return sets_.id_of(std::move(workers));
  }

  const int rank_;
  const std::span<const Tile> held_;
  const std::span<const Tile> needed_;
  SetTable& sets_;
  Work& work_;
};

}  // namespace

uint32_t SetTable::id_of(std::vector<uint32_t> workers) {
  const auto [it, added] = ids_.emplace(std::move(workers), static_cast<uint32_t>(sets_.size()));
  if (added) sets_.push_back(&it->first);
  return it->second;
}

void join_tiles(std::vector<Tile>* tiles) {
  std::sort(tiles->begin(), tiles->end(),
            [](const Tile& a, const Tile& b) { return box_before(a.box, b.box); });
  size_t kept = 0;
  for (size_t i = 0; i < tiles->size(); ++i) {
    Tile& tile = (*tiles)[i];
    if (kept > 0 && (*tiles)[kept - 1].box == tile.box) {
      std::vector<uint32_t>& workers = (*tiles)[kept - 1].workers;
      workers.insert(workers.end(), tile.workers.begin(), tile.workers.end());
      continue;
    }
    if (kept != i) (*tiles)[kept] = std::move(tile);
    ++kept;
  }
  tiles->resize(kept);
  for (Tile& tile : *tiles) {
    std::sort(tile.workers.begin(), tile.workers.end());
    tile.workers.erase(std::unique(tile.workers.begin(), tile.workers.end()), tile.workers.end());
  }
}

Result<std::vector<Cell>> refine(std::span<const int64_t> shape, std::span<const Tile> held,
                                 std::span<const Tile> needed, SetTable* sets, Work* work) {
  return Refiner(shape, held, needed, sets, work).run();
}

}  // namespace wb
