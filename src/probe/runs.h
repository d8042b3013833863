// One plane of one buffer, compressed while it streams by: the digits of neighbouring elements are
// runs of equal steps. Where runs are short (packed and interleaved layouts), blocks of digits that
// differ by a constant only are kept once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "probe/alphabet.h"

namespace wb::probe {

inline constexpr size_t kBlockDigits = 4096;
inline constexpr size_t kBlockBytes = kBlockDigits * sizeof(uint16_t);

// `count` digits: start, start + step, ... modulo 2^16, or those of a block plus `start`.
struct Segment {
  static constexpr uint32_t kRun = 0xFFFFFFFF;    // of equal steps
  static constexpr uint32_t kNoise = 0xFFFFFFFE;  // too irregular to be kept: no digits at all
  uint32_t count = 0;
  uint32_t block = kRun;  // or the number of a block
  uint16_t start = 0;
  uint16_t step = 0;
};

// Blocks of all planes and buffers. Any thread.
class BlockStore {
 public:
  // `users`: how many planes of buffers share it.
  BlockStore(uint64_t max_bytes, uint64_t users);

  // The number of a block with these kBlockDigits digits. If there is none yet, it is kept when
  // `may_add` and the store is not full; *added tells.
  std::optional<uint32_t> find_or_add(const uint16_t* digits, bool may_add, bool* added);
  // Not while others add.
  const uint16_t* block(uint32_t number) const { return blocks_[number].get(); }
  uint64_t bytes() const { return blocks_.size() * kBlockBytes; }
  // Blocks that one user may keep whatever its size.
  uint64_t fair_share() const { return fair_share_; }

 private:
  const uint64_t max_bytes_;
  const uint64_t fair_share_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<uint16_t[]>> blocks_;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
};

// How many of the first digits have equal steps; at least 1. `count` >= 1.
size_t run_length(const uint16_t* digits, size_t count);

// The digits of `count` elements, read with `coding` and `mask`.
std::vector<Segment> read_segments(const Coding& coding, const std::byte* elements, uint64_t count,
                                   uint16_t mask, BlockStore* blocks);

}  // namespace wb::probe
