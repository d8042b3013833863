// The layouts of all workers of one side (all trainers, or all receivers), without writing the same
// thing twice: equal layouts are kept once, and layouts that differ only in where their pieces
// start (shards of the same parameters) are kept as one layout and a rule.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"

namespace wb {

// How a piece differs from member to member of a family: member i's box starts i * step further
// along dimension `dim` of the tensor. dim < 0: it does not move.
struct Move {
  int32_t dim = -1;
  int64_t step = 0;
  bool operator==(const Move&) const = default;
};

// Layouts with the same buffers and the same pieces, the starts of their boxes apart.
struct LayoutFamily {
  WorkerLayout base;        // of member 0
  std::vector<Move> moves;  // parallel to base.pieces; empty when no piece moves

  // Piece `p` of member `index`.
  Piece piece(size_t p, int64_t index) const {
    Piece piece = base.pieces[p];
    if (moves.empty() || moves[p].dim < 0) return piece;
    const int d = moves[p].dim;
    Progression moved = piece.box.dim(d);
    moved.start += index * moves[p].step;
    piece.box = piece.box.with_dim(d, moved);
    return piece;
  }
};

struct SideMember {
  uint32_t family = 0;
  int64_t index = 0;
  bool operator==(const SideMember&) const = default;
};

struct Side {
  std::vector<LayoutFamily> families;
  std::vector<SideMember> members;  // by worker

  size_t size() const { return members.size(); }
  // The whole layout of one worker.
  WorkerLayout layout(uint32_t worker) const;
};

// Adds worker after worker; keeps of each only what is new.
class SideBuilder {
 public:
  SideMember add(WorkerLayout layout);
  // One more worker with a layout that is there already.
  void repeat(SideMember member) { side_.members.push_back(member); }
  Side take() { return std::move(side_); }

 private:
  Side side_;
  std::unordered_multimap<uint64_t, uint32_t> by_form_;  // digest of all but starts -> family
};

// check_layout of every member, and indices and moves that stay inside the tensors. Takes time in
// the families, not in the members.
Status check_side(const TensorTable& table, const Side& side, LayoutRole role);

}  // namespace wb
