// Atoms and classes: what the two sides have in common, before anybody decides who reads what.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/box.h"

namespace wb {

// All bytes with one set of holders and one set of needers.
struct ByteClass {
  uint64_t bytes = 0;
  std::vector<uint32_t> holders;  // source indices, ascending, never empty
  std::vector<uint32_t> needers;  // receiver indices, ascending, never empty
};

// A maximal box of one tensor whose elements are all of one class. Atoms of a table are disjoint
// and ordered by (tensor, box).
struct Atom {
  uint32_t tensor = 0;
  uint32_t byte_class = 0;
  Box box;
};

}  // namespace wb
