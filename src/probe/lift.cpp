#include "probe/lift.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/checked.h"

namespace wb::probe {
namespace {

// A nest with levels sorted out: at most one per dimension stays, the rest is written out.
struct Loops {
  int64_t offset = 0;  // in bytes
  std::array<int64_t, kMaxRank> coord{};
  std::array<Level, kMaxRank> kept{};  // by dimension; pitches in bytes
  std::vector<Level> written_out;
};

// Levels whose step is negative start at their other end.
void turn(Level* level, Loops* loops) {
  if (level->step >= 0) return;
  loops->coord[static_cast<size_t>(level->dim)] += level->step * (level->count - 1);
  loops->offset += level->pitch * (level->count - 1);
  level->step = -level->step;
  level->pitch = -level->pitch;
}

// Whether `outer` goes on where `inner` ends, so that both are one level.
bool joins(const Level& inner, const Level& outer) {
  return outer.step == inner.step * inner.count && outer.pitch == inner.pitch * inner.count;
}

void join_levels(std::vector<Level>* levels) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < levels->size() && !changed; ++i) {
      for (size_t j = 0; j < levels->size() && !changed; ++j) {
        Level& inner = (*levels)[i];
        const Level& outer = (*levels)[j];
        if (i == j || inner.dim != outer.dim || inner.dim < 0 || !joins(inner, outer)) continue;
        inner.count *= outer.count;
        levels->erase(levels->begin() + static_cast<ptrdiff_t>(j));
        changed = true;
      }
    }
  }
}

// From bytes to units of a packed type along the last dimension: the innermost level must walk
// through whole units.
bool to_units(const TensorInfo& info, const ProbedTensor& tensor, Loops* loops,
              std::vector<Level>* levels) {
  const int64_t unit = dtype_info(info.dtype).unit_bytes;
  if (unit == 1 || tensor.family != Family::kByte) return true;
  const int last = tensor.rank - 1;
  int64_t& start = loops->coord[static_cast<size_t>(last)];
  if (start % unit != 0) return false;
  start /= unit;
  bool whole = false;
  for (Level& level : *levels) {
    if (level.dim != last) continue;
    if (level.step == 1 && level.pitch == 1 && level.count % unit == 0) {
      level.count /= unit;
      level.pitch *= unit;
      whole = true;
    } else if (level.step % unit == 0) {
      level.step /= unit;
    } else {
      return false;
    }
  }
  return whole;
}

bool sort_out(const Nest& nest, const TensorInfo& info, const ProbedTensor& tensor,
              uint32_t element_bytes, Loops* loops) {
  loops->offset = nest.position * element_bytes;
  loops->coord = nest.coord;
  std::vector<Level> levels;
  for (int i = 0; i < nest.levels; ++i) {
    Level level = nest.level[static_cast<size_t>(i)];
    level.pitch *= element_bytes;
    turn(&level, loops);
    if (level.count > 1) levels.push_back(level);
  }
  join_levels(&levels);
  if (!to_units(info, tensor, loops, &levels)) return false;
  for (const Level& level : levels) {
    if (level.count == 1) continue;
    if (level.dim < 0) {
      loops->written_out.push_back(level);
      continue;
    }
    Level& kept = loops->kept[static_cast<size_t>(level.dim)];
    if (kept.dim < 0) {
      kept = level;
    } else if (level.count > kept.count) {
      loops->written_out.push_back(std::exchange(kept, level));
    } else {
      loops->written_out.push_back(level);
    }
  }
  return true;
}

bool inside(const std::vector<Piece>& pieces, const TensorInfo& info) {
  const std::vector<int64_t> shape = info.unit_shape();
  return std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
    for (int d = 0; d < piece.box.rank(); ++d) {
      if (piece.box.dim(d).last() >= shape[static_cast<size_t>(d)]) return false;
    }
    return true;
  });
}

}  // namespace

bool lift(const Nest& nest, const TensorInfo& info, const ProbedTensor& tensor, uint32_t index,
          uint32_t buffer, uint32_t element_bytes, int64_t max_pieces, std::vector<Piece>* out) {
  Loops loops;
  if (!sort_out(nest, info, tensor, element_bytes, &loops)) return false;
  std::vector<Piece> pieces_made;
  int64_t pieces = 1;
  for (const Level& level : loops.written_out) {
    const auto product = checked_mul(pieces, level.count);
    if (!product || *product > max_pieces) return false;
    pieces = *product;
  }
  for (int64_t number = 0; number < pieces; ++number) {
    Piece piece;
    piece.tensor = index;
    piece.buffer = buffer;
    piece.offset = loops.offset;
    std::array<int64_t, kMaxRank> coord = loops.coord;
    int64_t rest = number;
    for (const Level& level : loops.written_out) {
      const int64_t turn_number = rest % level.count;
      rest /= level.count;
      piece.offset += level.pitch * turn_number;
      if (level.dim >= 0) coord[static_cast<size_t>(level.dim)] += level.step * turn_number;
    }
    std::array<Progression, kMaxRank> dims;
    for (int d = 0; d < tensor.rank; ++d) {
      const auto dim = static_cast<size_t>(d);
      const Level& kept = loops.kept[dim];
      dims[dim] = {coord[dim], kept.count, kept.count == 1 ? 1 : kept.step};
      piece.stride[dim] = kept.count == 1 ? 0 : kept.pitch;
    }
    auto box = Box::make(std::span(dims).first(static_cast<size_t>(tensor.rank)));
    if (!box.ok()) return false;
    piece.box = *box;
    pieces_made.push_back(piece);
  }
  // A claim may reach beyond its tensor; nothing is read there.
  if (!inside(pieces_made, info)) return false;
  out->insert(out->end(), pieces_made.begin(), pieces_made.end());
  return true;
}

}  // namespace wb::probe
