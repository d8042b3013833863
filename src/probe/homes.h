// How often each element of a checkpoint tensor occurs in the buffers.
#pragma once

#include <cstdint>
#include <span>

#include "layout/box.h"

namespace wb::probe {

// Counts units of the tensor.
struct Homes {
  uint64_t elements = 0;  // = none + one + more
  uint64_t none = 0;
  uint64_t one = 0;
  uint64_t more = 0;
  uint64_t cast = 0;  // of none: in a box of `cast`
};

// `copies`, `cast`: boxes of a tensor of this shape (in units), in any number and overlapping as
// they like.
Homes count_homes(std::span<const int64_t> shape, std::span<const Box> copies,
                  std::span<const Box> cast);

}  // namespace wb::probe
