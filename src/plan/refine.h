// Refines one tensor by the boxes of both sides into boxes that have one set of holders and one set
// of needers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/status.h"
#include "layout/box.h"
#include "plan/work.h"

namespace wb {

// Sets of workers, each kept once.
class SetTable {
 public:
  // `workers` is ascending, without repetition.
  uint32_t id_of(std::vector<uint32_t> workers);
  const std::vector<uint32_t>& set(uint32_t id) const { return *sets_[id]; }

 private:
  std::map<std::vector<uint32_t>, uint32_t> ids_;
  std::vector<const std::vector<uint32_t>*> sets_;
};

// One box that some workers of a side have.
struct Tile {
  Box box;
  std::vector<uint32_t> workers;  // ascending
};

// Sorts by box and joins the workers of equal boxes.
void join_tiles(std::vector<Tile>* tiles);

struct Cell {
  Box box;
  uint32_t holders = 0;  // set of sources; may be the empty one
  uint32_t needers = 0;  // set of receivers, never empty
};

// What of the tensor of `shape` some receiver needs, as disjoint boxes in the order of their
// starts; neighbours with equal sets are one. kUnsupported when `work` is used up.
Result<std::vector<Cell>> refine(std::span<const int64_t> shape, std::span<const Tile> held,
                                 std::span<const Tile> needed, SetTable* sets, Work* work);

}  // namespace wb
