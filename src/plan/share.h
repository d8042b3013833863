// What goes from one piece of a source to one piece of a receiver.
#pragma once

#include <cstdint>

#include "layout/box.h"
#include "layout/worker_layout.h"

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

}  // namespace wb
