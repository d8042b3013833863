// What no piece covers: told apart as untouched, constant and computed.
//
// Such bytes are watched through four loads: one of values A, one of B and two of C. Before some of
// them they are filled with sentinels, so that what a loader leaves alone shows:
//
//   load           before it         of a touched element, afterwards
//   A              as they are       kept
//   B              first sentinel    same as after A? then perhaps constant
//   C              second sentinel   the same question; kept
//   C again        first sentinel    equal to the load before, or the loader is not deterministic
//
// An element that shows the second sentinel and then the first is untouched. Ranges that are too
// large to be kept are watched block by block: a digest each, and no constants.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "layout/dtype.h"
#include "probe/cover.h"

namespace wb::probe {

enum class ByteKind : uint8_t {
  kCopied = 1,
  kCast = 2,
  kUntouched = 3,
  kConstant = 4,
  kComputed = 5,
};

// `count` ranges of `bytes` bytes, `pitch` apart.
struct KindRange {
  uint32_t buffer = 0;
  ByteKind kind = ByteKind::kComputed;
  bool zero = false;  // of a constant: all bytes are zero
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t count = 1;
  uint64_t pitch = 0;
};

// The leftovers of one buffer.
class Leftovers {
 public:
  Leftovers(DType dtype, std::byte* data, std::vector<ElementRange> ranges);

  const std::vector<ElementRange>& ranges() const { return ranges_; }
  uint64_t bytes() const;
  // Memory that watch() with `whole` takes beyond that of blocks.
  uint64_t whole_cost() const { return bytes() + bytes() / element_; }

  uint64_t memory() const;

  // After the load of A. `whole`: keep every element.
  void watch(bool whole);
  void before_b() { fill(kFirst); }
  void after_b();
  void before_c() { fill(kSecond); }
  void after_c();
  void before_c_again();
  // The first element that is not as after the first load of C.
  std::optional<uint64_t> after_c_again();
  // In order of offsets; `buffer` is left at 0.
  std::vector<KindRange> classify() const;

  // Copies all of it to or from `aside`, bytes() long.
  void save(std::byte* aside) const;
  void put_back(const std::byte* aside) const;

 private:
  enum State : uint8_t { kFresh, kUntouched, kSame, kOther };
  enum Sentinel : uint8_t { kFirst, kSecond };
  struct Block {
    uint64_t first = 0;  // element
    uint64_t count = 0;
    uint64_t digest = 0;
    bool untouched = true;
  };

  void fill(Sentinel which);
  bool is_sentinel(const std::byte* element, Sentinel which) const;
  bool all_sentinel(const Block& block, Sentinel which) const;
  // Calls visit(element, its index among all that is left) for each element.
  template <typename Visit>
  void for_each(Visit visit) const;
  void classify_touched(uint64_t first, uint64_t count, uint64_t state,
                        std::vector<KindRange>* out) const;

  const uint32_t element_;
  std::byte* const data_;
  const std::vector<ElementRange> ranges_;
  std::array<std::vector<std::byte>, 2> sentinels_;  // a block of elements each
  bool whole_ = false;
  std::vector<std::byte> kept_;  // whole_: bytes after A, later after C
  std::vector<State> states_;    // whole_
  std::vector<Block> blocks_;    // not whole_
};

// Joins ranges that are equally long and equally far apart.
std::vector<KindRange> joined(std::span<const KindRange> ranges);

}  // namespace wb::probe
