#include "probe/runs.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/hash.h"

namespace wb::probe {
namespace {

// More runs than this in a block cost more than a reference to the block.
constexpr size_t kMaxRunsPerBlock = 32;
// Of all blocks of a plane of a buffer, the share that may be kept for it in any case.
constexpr uint64_t kOwnShare = 128;
// The fair share of the store that it may take besides: a layout made of tiles needs a few blocks,
// one per phase of the tile, where noise needs all.
constexpr uint64_t kLeastFair = 4;
constexpr uint64_t kMostFair = 64;

using Digits = std::array<uint16_t, kBlockDigits>;

// Appends to segments, joining what goes on as before.
class Writer {
 public:
  void run(uint16_t start, uint16_t step, size_t count) {
    if (!segments_.empty()) {
      Segment& last = segments_.back();
      const auto next = static_cast<uint16_t>(last.start + last.step * last.count);
      const bool goes_on = last.block == Segment::kRun && next == start &&
                           (count == 1 || last.step == step) && last.count > 1 &&
                           (start == kNoDigit) == (last.start == kNoDigit && last.step == 0);
      if (goes_on && last.count <= UINT32_MAX - count) {
        last.count += static_cast<uint32_t>(count);
        return;
      }
    }
    segments_.push_back({static_cast<uint32_t>(count), Segment::kRun, start, step});
  }
  void block(uint32_t number, uint16_t start, size_t count) {
    segments_.push_back({static_cast<uint32_t>(count), number, start, 0});
  }
  std::vector<Segment> take() {
    segments_.shrink_to_fit();
    return std::move(segments_);
  }

 private:
  std::vector<Segment> segments_;
};

// False, and nothing is written, when there are too many runs.
bool write_runs(const Digits& digits, size_t count, Writer* writer) {
  struct Run {
    uint16_t start;
    uint16_t step;
    uint32_t count;
  };
  std::array<Run, kMaxRunsPerBlock> runs;
  size_t used = 0;
  for (size_t at = 0; at < count;) {
    if (used == kMaxRunsPerBlock) return false;
    const size_t length = run_length(&digits[at], count - at);
    const auto step = length == 1 ? 0 : static_cast<uint16_t>(digits[at + 1] - digits[at]);
    runs[used++] = {digits[at], static_cast<uint16_t>(step), static_cast<uint32_t>(length)};
    at += length;
  }
  for (size_t i = 0; i < used; ++i) writer->run(runs[i].start, runs[i].step, runs[i].count);
  return true;
}

}  // namespace

BlockStore::BlockStore(uint64_t max_bytes, uint64_t users)
    : max_bytes_(max_bytes),
      fair_share_(std::clamp(max_bytes / kBlockBytes / std::max<uint64_t>(users, 1), kLeastFair,
                             kMostFair)) {}

std::optional<uint32_t> BlockStore::find_or_add(const uint16_t* digits, bool may_add, bool* added) {
  *added = false;
  const uint64_t hash =
      digest_of(std::span(reinterpret_cast<const std::byte*>(digits), kBlockBytes)).low;
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (std::memcmp(blocks_[it->second].get(), digits, kBlockBytes) == 0) return it->second;
  }
  if (!may_add || bytes() + kBlockBytes > max_bytes_) return std::nullopt;
  auto block = std::make_unique<uint16_t[]>(kBlockDigits);
  std::memcpy(block.get(), digits, kBlockBytes);
  const auto number = static_cast<uint32_t>(blocks_.size());
  blocks_.push_back(std::move(block));
  by_hash_.emplace(hash, number);
  *added = true;
  return number;
}

size_t run_length(const uint16_t* digits, size_t count) {
  if (count == 1) return 1;
  const auto step = static_cast<uint16_t>(digits[1] - digits[0]);
  if (digits[0] == kNoDigit && step != 0) return 1;
  constexpr size_t kLanes = 8;
  using Lanes = uint16_t __attribute__((vector_size(2 * kLanes)));
  const auto load = [](const uint16_t* from) {
    Lanes lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    return lanes;
  };
  size_t length = 2;
  for (; length + 4 * kLanes <= count; length += 4 * kLanes) {
    Lanes wrong{};
    for (size_t i = 0; i < 4; ++i) {
      const uint16_t* at = digits + length + i * kLanes;
      wrong |= (load(at) - load(at - 1)) ^ step;
    }
    uint64_t halves[2];
    std::memcpy(halves, &wrong, sizeof halves);
    if ((halves[0] | halves[1]) != 0) break;
  }
  while (length < count && static_cast<uint16_t>(digits[length] - digits[length - 1]) == step) {
    ++length;
  }
  return length;
}

std::vector<Segment> read_segments(const Coding& coding, const std::byte* elements, uint64_t count,
                                   uint16_t mask, BlockStore* blocks) {
  Writer writer;
  Digits digits;
  const size_t element = element_bytes(coding.dtype);
  uint64_t own_left = blocks->fair_share() + count / kBlockDigits / kOwnShare;
  for (uint64_t at = 0; at < count; at += kBlockDigits) {
    const size_t here = static_cast<size_t>(std::min<uint64_t>(kBlockDigits, count - at));
    read_digits(coding, elements + at * element, here, mask, digits.data());
    if (write_runs(digits, here, &writer)) continue;
    const uint16_t start = digits[0];
    for (size_t i = 0; i < here; ++i) digits[i] = static_cast<uint16_t>(digits[i] - start);
    std::fill(digits.begin() + static_cast<ptrdiff_t>(here), digits.end(), uint16_t{0});
    bool added = false;
    const auto number = blocks->find_or_add(digits.data(), own_left > 0, &added);
    if (added) --own_left;
    writer.block(number.value_or(Segment::kNoise), start, here);
  }
  return writer.take();
}

}  // namespace wb::probe
