#include "layout/side.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "base/checked.h"
#include "base/hash.h"

namespace wb {
namespace {

// Equal for layouts that may be of one family: everything but the starts of boxes.
uint64_t form_of(const WorkerLayout& layout) {
  Hasher hasher;
  hasher.add(uint64_t{layout.buffers.size()}).add(uint64_t{layout.pieces.size()});
  hasher.add(uint64_t{layout.extras.size()});
  for (const BufferInfo& buffer : layout.buffers) hasher.add(std::string_view(buffer.name));
  for (const Piece& piece : layout.pieces) {
    hasher.add(uint64_t{piece.tensor}).add(piece.offset);
    for (int d = 0; d < piece.box.rank(); ++d) hasher.add(piece.box.dim(d).count);
  }
  return hasher.digest().low;
}

bool same(const BufferInfo& a, const BufferInfo& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes;
}

bool same(const Extra& a, const Extra& b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.bytes == b.bytes && a.kind == b.kind &&
         a.name == b.name;
}

template <typename T>
bool all_same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const T& x, const T& y) { return same(x, y); });
}

// How far `p` lies behind `q` in widths of q's box along `dim`; nothing when it is no whole number
// of them or something else differs as well.
struct Shift {
  int dim = -1;  // -1: the pieces are equal
  int64_t widths = 0;
};
std::optional<Shift> shift_of(const Piece& p, const Piece& q) {
  if (p.tensor != q.tensor || p.buffer != q.buffer || p.offset != q.offset ||
      p.stride != q.stride || p.box.rank() != q.box.rank()) {
    return std::nullopt;
  }
  Shift shift;
  for (int d = 0; d < p.box.rank(); ++d) {
    const Progression& a = p.box.dim(d);
    const Progression& b = q.box.dim(d);
    if (a.count != b.count || a.step != b.step) return std::nullopt;
    if (a.start == b.start) continue;
    const auto width = checked_mul(a.count, a.step);
    const int64_t ahead = a.start - b.start;  // both are in [0, 2^63)
    if (shift.dim >= 0 || !width || ahead % *width != 0) return std::nullopt;
    shift = {d, ahead / *width};
  }
  return shift;
}

// The index of `layout` in the family, if it is one of its kind. Fixes the moves of a family that
// has none yet.
std::optional<int64_t> join(const WorkerLayout& layout, LayoutFamily* family) {
  const WorkerLayout& base = family->base;
  if (layout.pieces.size() != base.pieces.size() || !all_same(layout.buffers, base.buffers) ||
      !all_same(layout.extras, base.extras)) {
    return std::nullopt;
  }
  std::vector<Move> moves(base.pieces.size());
  int64_t index = 0;
  for (size_t p = 0; p < base.pieces.size(); ++p) {
    const auto shift = shift_of(layout.pieces[p], base.pieces[p]);
    if (!shift) return std::nullopt;
    if (shift->dim < 0) continue;
    if (index != 0 && shift->widths != index) return std::nullopt;
    index = shift->widths;
    const Progression& part = base.pieces[p].box.dim(shift->dim);
    moves[p] = {shift->dim, part.count * part.step};
  }
  if (index == 0) return 0;
  if (family->moves.empty()) {
    family->moves = std::move(moves);
  } else if (family->moves != moves) {
    return std::nullopt;
  }
  return index;
}

}  // namespace

WorkerLayout Side::layout(uint32_t worker) const {
  const SideMember& member = members[worker];
  const LayoutFamily& family = families[member.family];
  WorkerLayout layout = family.base;
  for (size_t p = 0; p < layout.pieces.size(); ++p) {
    layout.pieces[p] = family.piece(p, member.index);
  }
  return layout;
}

SideMember SideBuilder::add(WorkerLayout layout) {
  const uint64_t form = form_of(layout);
  const auto [begin, end] = by_form_.equal_range(form);
  SideMember member;
  bool found = false;
  for (auto it = begin; it != end && !found; ++it) {
    if (const auto index = join(layout, &side_.families[it->second])) {
      member = {it->second, *index};
      found = true;
    }
  }
  if (!found) {
    member = {static_cast<uint32_t>(side_.families.size()), 0};
    side_.families.push_back({std::move(layout), {}});
    by_form_.emplace(form, member.family);
  }
  side_.members.push_back(member);
  return member;
}

Status check_side(const TensorTable& table, const Side& side, LayoutRole role) {
  struct Extent {
    int64_t low = std::numeric_limits<int64_t>::max();
    int64_t high = std::numeric_limits<int64_t>::min();
  };
  std::vector<Extent> extents(side.families.size());
  for (const SideMember& member : side.members) {
    if (member.family >= side.families.size()) {
      return Status(Code::kInvalidArgument, "a worker of layout family " +
                                                std::to_string(member.family) + " of " +
                                                std::to_string(side.families.size()));
    }
    Extent& extent = extents[member.family];
    extent.low = std::min(extent.low, member.index);
    extent.high = std::max(extent.high, member.index);
  }
  for (size_t f = 0; f < side.families.size(); ++f) {
    const LayoutFamily& family = side.families[f];
    if (extents[f].low > extents[f].high) continue;
    if (!family.moves.empty() && family.moves.size() != family.base.pieces.size()) {
      return Status(Code::kInvalidArgument,
                    "a layout family with " + std::to_string(family.moves.size()) + " moves for " +
                        std::to_string(family.base.pieces.size()) + " pieces");
    }
    // Starts are linear in the index: what holds for the first and the last member holds between.
    for (const int64_t index : {extents[f].low, extents[f].high}) {
      for (size_t p = 0; p < family.moves.size(); ++p) {
        const Piece& piece = family.base.pieces[p];
        const Move& move = family.moves[p];
        if (move.dim < 0) continue;
        if (move.dim >= piece.box.rank()) {
          return Status(Code::kInvalidArgument, "a piece that moves along a dimension it lacks");
        }
        const auto way = checked_mul(index, move.step);
        const auto start = way ? checked_add(piece.box.dim(move.dim).start, *way) : std::nullopt;
        // Room for the last value of any box; check_piece compares with the tensor.
        if (!start || *start < 0 || *start > std::numeric_limits<int64_t>::max() / 2 ||
            piece.box.dim(move.dim).last() > std::numeric_limits<int64_t>::max() / 4) {
          return Status(Code::kInvalidArgument, "a piece that moves out of its tensor");
        }
      }
      Side one{{family}, {{0, index}}};
      WB_RETURN_IF_ERROR(check_layout(table, one.layout(0), role));
    }
  }
  return Status();
}

}  // namespace wb
