// From nested runs to pieces: a nest's levels become the dimensions of boxes.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "probe/nest.h"
#include "probe/schema.h"

namespace wb::probe {

// Appends the pieces of `nest`, whose positions count elements of `element_bytes` bytes. A box has
// one progression and one stride per dimension: of several levels of one dimension the longest is
// kept, the others are written out, each repetition as a piece of its own. False, and nothing is
// appended, when that makes more than `max_pieces`, or when bytes of a packed type are torn from
// their unit.
bool lift(const Nest& nest, const TensorInfo& info, const ProbedTensor& tensor, uint32_t index,
          uint32_t buffer, uint32_t element_bytes, int64_t max_pieces, std::vector<Piece>* out);

}  // namespace wb::probe
