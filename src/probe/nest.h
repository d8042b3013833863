// Nested runs: where the elements of one tensor lie in one buffer, as loops over its flat storage.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "layout/box.h"

namespace wb::probe {

// One loop: `count` repetitions, each `pitch` elements further in the buffer, and `step` further in
// dimension `dim` of the tensor (dim -1 with step 0: the same elements again).
struct Level {
  int64_t count = 1;
  int64_t pitch = 0;
  int64_t step = 0;
  int dim = -1;
  bool operator==(const Level&) const = default;
};

inline constexpr int kMaxLevels = 12;

struct Nest {
  int64_t position = 0;  // of the first element in the buffer, in elements
  std::array<int64_t, kMaxRank> coord{};
  int levels = 0;
  std::array<Level, kMaxLevels> level{};  // innermost first

  int64_t size() const;
};

// Folds the elements of one tensor, given in order of their positions in a buffer, into nests. What
// repeats with a constant distance in the buffer and along one dimension becomes a level, innermost
// first; each level keeps one pending nest, so memory does not grow with the buffer.
class NestBuilder {
 public:
  // `count` elements at position, position + 1, ..., the first at `coord`, each `step` further in
  // `dim`. `dim` and `step` do not count when `count` is 1.
  void add(int64_t position, const std::array<int64_t, kMaxRank>& coord, int dim, int64_t step,
           int64_t count);
  // Also takes nests that were made before, in any order.
  void add(const Nest& nest) { push(0, nest); }
  // All that was added. The builder is empty again.
  std::vector<Nest> take();

 private:
  // `count` nests that differ by a level.
  struct Pending {
    Nest nest;
    Level by{0, 0, 0, -1};  // by.count is the number of nests; 0: nothing is pending
  };

  void start(int64_t position, const std::array<int64_t, kMaxRank>& coord, int dim, int64_t step,
             int64_t count);
  void flush_leaf();
  void push(size_t stage, const Nest& nest);
  void flush(size_t stage);

  Pending leaf_;  // of single elements
  std::vector<Pending> stages_;
  std::vector<Nest> done_;
};

// Folds nests of one tensor in one buffer further, however they are interleaved: equal ones that
// are equally far apart become one.
std::vector<Nest> fold(std::vector<Nest> nests);

}  // namespace wb::probe
