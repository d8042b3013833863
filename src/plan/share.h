// Which source serves which part of a need: cuts a receiver's piece by exact box difference into
// shares, each held by one source piece.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/box.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "plan/plan.h"
#include "plan/work.h"

namespace wb {

// `box` of tensor to->tensor is read from `from` of source `source` into `to`.
struct Share {
  uint32_t source = 0;
  const Piece* from = nullptr;
  const Piece* to = nullptr;
  Box box;
};

// A total order of pieces by content: what makes a plan independent of the order in which a layout
// lists its pieces.
bool piece_before(const Piece& a, const Piece& b);

// Divides needs among the sources' pieces, one need after the other; remembers how many bytes each
// source was given. Borrows everything it is made from.
class Sharing {
 public:
  // Indexes the sources' pieces of the tensors that `receiver` needs.
  Sharing(const TensorTable& table, const WorkerLayout& receiver, uint32_t receiver_index,
          std::span<const PlanWorker> sources);

  // Appends disjoint shares that cover what of `need` some source holds. Returns the bytes of
  // `need` that no source holds. kUnsupported when the pieces are so irregular that it would take
  // minutes to divide them all.
  Result<uint64_t> split(const Piece& need, std::vector<Share>* out);

 private:
  struct Holder {
    const Piece* piece = nullptr;
    uint32_t source = 0;
    int64_t reach = 0;  // largest last value on the tensor's axis among this holder and all before
  };
  // The holders of one tensor: holders_[begin, end), sorted by start on `axis`.
  struct Slot {
    size_t begin = 0;
    size_t end = 0;
    int axis = 0;
  };
  struct Rest {
    Box box;
    std::vector<const Holder*> holders;  // all that meet `box`
  };

  Status exhausted(const Piece& need) const;
  void index(const WorkerLayout& receiver);
  void sort_slot(Slot* slot);
  std::vector<const Holder*> holders_of(const Piece& need) const;
  const Holder* least_loaded(const std::vector<const Holder*>& holders) const;

  const TensorTable& table_;
  const uint32_t receiver_index_;
  const std::span<const PlanWorker> sources_;
  std::vector<Slot> slots_;  // by tensor
  std::vector<Holder> holders_;
  std::vector<uint64_t> load_;  // bytes, by source
  Work work_;
};

}  // namespace wb
