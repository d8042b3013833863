// Whether a piece of a buffer holds the values that it should.
#pragma once

#include <cstdint>

#include "layout/worker_layout.h"
#include "probe/schema.h"
#include "probe/views.h"

namespace wb::probe {

// Compares the elements of `piece` in the buffer at `data`, `element` bytes each, with those that
// `view` gives its coordinates. The view is of the buffer's type and, for packed types, of bytes.
bool holds(const Piece& piece, const TensorInfo& info, const std::byte* data, uint32_t element,
           const View& view);

}  // namespace wb::probe
