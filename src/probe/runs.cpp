#include "probe/runs.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/hash.h"

namespace wb::probe {
namespace {

// With more runs a reference to a block is cheaper, if there is such a block or may be one.
constexpr size_t kFewRuns = 32;
// With more runs a block is not written as runs at all.
constexpr size_t kManyRuns = 256;
// Of the bytes of a plane, what such blocks may cost, and what they may cost in any case.
constexpr uint64_t kRunShare = 12;
constexpr uint64_t kRunBytes = uint64_t{64} << 10;
// Of all blocks of a plane of a buffer, the share that may be kept for it in any case.
constexpr uint64_t kOwnShare = 128;
// The fair share of the store that it may take besides: a layout made of tiles needs a few blocks,
// one per phase of the tile, where noise needs all.
constexpr uint64_t kLeastFair = 16;
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

// The runs of a block; found once, and written if there are few enough.
class Runs {
 public:
  // False when there are more than kManyRuns.
  bool find(const Digits& digits, size_t count) {
    used_ = 0;
    for (size_t at = 0; at < count;) {
      if (used_ == kManyRuns) return false;
      const size_t length = run_length(&digits[at], count - at);
      const int step = length == 1 ? 0 : digits[at + 1] - digits[at];
      runs_[used_++] = {digits[at], static_cast<uint16_t>(step), static_cast<uint32_t>(length)};
      at += length;
    }
    return true;
  }
  size_t size() const { return used_; }
  void write(Writer* writer) const {
    for (size_t i = 0; i < used_; ++i) writer->run(runs_[i].start, runs_[i].step, runs_[i].count);
  }

 private:
  struct Run {
    uint16_t start;
    uint16_t step;
    uint32_t count;
  };
  std::array<Run, kManyRuns> runs_;
  size_t used_ = 0;
};

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
  Runs runs;
  uint64_t run_bytes_left = kRunBytes + count * sizeof(uint16_t) / kRunShare;
  const size_t element = element_bytes(coding.dtype);
  uint64_t own_left = blocks->fair_share() + count / kBlockDigits / kOwnShare;
  for (uint64_t at = 0; at < count; at += kBlockDigits) {
    const size_t here = static_cast<size_t>(std::min<uint64_t>(kBlockDigits, count - at));
    read_digits(coding, elements + at * element, here, mask, digits.data());
    const bool countable = runs.find(digits, here);
    if (countable && runs.size() <= kFewRuns) {
      runs.write(&writer);
      continue;
    }
    const uint16_t start = digits[0];
    for (size_t i = 0; i < here; ++i) digits[i] = static_cast<uint16_t>(digits[i] - start);
    std::fill(digits.begin() + static_cast<ptrdiff_t>(here), digits.end(), uint16_t{0});
    bool added = false;
    const auto number = blocks->find_or_add(digits.data(), own_left > 0, &added);
    if (added) --own_left;
    const uint64_t cost = runs.size() * sizeof(Segment);
    if (!number && countable && cost <= run_bytes_left) {
      run_bytes_left -= cost;
      runs.write(&writer);
      continue;
    }
    writer.block(number.value_or(Segment::kNoise), start, here);
  }
  return writer.take();
}

}  // namespace wb::probe
