#include "probe/leftovers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "probe/alphabet.h"

namespace wb::probe {
namespace {

// Equal values side by side that count as a constant inside of what is computed: what is computed
// from random values is not equal by chance over so many bytes.
constexpr uint64_t kConstantBytes = 16;
constexpr uint64_t kBlockElements = 4096;

}  // namespace

Leftovers::Leftovers(DType dtype, std::byte* data, std::vector<ElementRange> ranges)
    : element_(element_bytes(dtype)), data_(data), ranges_(std::move(ranges)) {
  uint64_t longest = 0;
  for (const ElementRange& range : ranges_) longest = std::max(longest, range.count);
  const uint64_t elements = std::min(longest, kBlockElements);
  for (const Sentinel which : {kFirst, kSecond}) {
    sentinels_[which].resize(elements * element_);
    for (uint64_t i = 0; i < elements; ++i) {
      write_sentinel(dtype, which, &sentinels_[which][i * element_]);
    }
  }
}

uint64_t Leftovers::bytes() const {
  uint64_t elements = 0;
  for (const ElementRange& range : ranges_) elements += range.count;
  return elements * element_;
}

uint64_t Leftovers::memory() const {
  return ranges_.capacity() * sizeof(ElementRange) + kept_.capacity() +
         states_.capacity() * sizeof(State) + blocks_.capacity() * sizeof(Block);
}

bool Leftovers::is_sentinel(const std::byte* element, Sentinel which) const {
  return std::memcmp(element, sentinels_[which].data(), element_) == 0;
}

bool Leftovers::all_sentinel(const Block& block, Sentinel which) const {
  const std::byte* data = data_ + block.first * element_;
  return std::memcmp(data, sentinels_[which].data(), block.count * element_) == 0;
}

template <typename Visit>
void Leftovers::for_each(Visit visit) const {
  uint64_t index = 0;
  for (const ElementRange& range : ranges_) {
    for (uint64_t i = 0; i < range.count; ++i) visit(data_ + (range.first + i) * element_, index++);
  }
}

void Leftovers::save(std::byte* aside) const {
  for (const ElementRange& range : ranges_) {
    const uint64_t bytes = range.count * element_;
    std::memcpy(aside, data_ + range.first * element_, bytes);
    aside += bytes;
  }
}

void Leftovers::put_back(const std::byte* aside) const {
  for (const ElementRange& range : ranges_) {
    const uint64_t bytes = range.count * element_;
    std::memcpy(data_ + range.first * element_, aside, bytes);
    aside += bytes;
  }
}

void Leftovers::watch(bool whole) {
  whole_ = whole;
  if (whole_) {
    kept_.resize(bytes());
    states_.assign(bytes() / element_, kFresh);
    save(kept_.data());
    return;
  }
  for (const ElementRange& range : ranges_) {
    for (uint64_t i = 0; i < range.count; i += kBlockElements) {
      blocks_.push_back({range.first + i, std::min(kBlockElements, range.count - i), 0, true});
    }
  }
}

void Leftovers::fill(Sentinel which) {
  for (const ElementRange& range : ranges_) {
    for (uint64_t i = 0; i < range.count; i += kBlockElements) {
      const uint64_t elements = std::min(kBlockElements, range.count - i);
      std::memcpy(data_ + (range.first + i) * element_, sentinels_[which].data(),
                  elements * element_);
    }
  }
}

void Leftovers::before_c_again() {
  // Of blocks only digests are known: they stay as they are.
  if (whole_) fill(kFirst);
}

void Leftovers::after_b() {
  if (!whole_) {
    for (Block& block : blocks_) block.untouched = all_sentinel(block, kFirst);
    return;
  }
  for_each([&](const std::byte* element, uint64_t i) {
    const bool same = std::memcmp(element, &kept_[i * element_], element_) == 0;
    states_[i] = same ? kSame : kOther;
  });
}

void Leftovers::after_c() {
  if (!whole_) {
    for (Block& block : blocks_) {
      block.untouched = block.untouched && all_sentinel(block, kSecond);
      block.digest =
          digest_of(std::span(data_ + block.first * element_, block.count * element_)).low;
    }
    return;
  }
  for_each([&](const std::byte* element, uint64_t i) {
    if (std::memcmp(element, &kept_[i * element_], element_) != 0) states_[i] = kOther;
  });
  save(kept_.data());
}

std::optional<uint64_t> Leftovers::after_c_again() {
  if (!whole_) {
    for (const Block& block : blocks_) {
      const auto now = std::span(data_ + block.first * element_, block.count * element_);
      if (digest_of(now).low != block.digest) return block.first;
    }
    return std::nullopt;
  }
  std::optional<uint64_t> wrong;
  for_each([&](const std::byte* element, uint64_t i) {
    const std::byte* before = &kept_[i * element_];
    if (is_sentinel(before, kSecond) && is_sentinel(element, kFirst)) {
      states_[i] = kUntouched;
    } else if (!wrong && std::memcmp(element, before, element_) != 0) {
      wrong = static_cast<uint64_t>(element - data_) / element_;
    }
  });
  return wrong;
}

std::vector<KindRange> Leftovers::classify() const {
  std::vector<KindRange> found;
  const auto emit = [&](ByteKind kind, uint64_t first, uint64_t count) {
    if (!found.empty() && found.back().kind == kind &&
        found.back().offset + found.back().bytes == first * element_) {
      found.back().bytes += count * element_;
      return;
    }
    found.push_back({0, kind, false, first * element_, count * element_, 1, 0});
  };
  if (!whole_) {
    for (const Block& block : blocks_) {
      emit(block.untouched ? ByteKind::kUntouched : ByteKind::kComputed, block.first, block.count);
    }
    return found;
  }
  uint64_t base = 0;  // index of the range's first element in states_
  for (const ElementRange& range : ranges_) {
    for (uint64_t i = 0; i < range.count;) {
      const bool untouched = states_[base + i] == kUntouched;
      uint64_t end = i + 1;
      while (end < range.count && (states_[base + end] == kUntouched) == untouched) ++end;
      if (untouched) {
        emit(ByteKind::kUntouched, range.first + i, end - i);
      } else {
        classify_touched(range.first + i, end - i, base + i, &found);
      }
      i = end;
    }
    base += range.count;
  }
  return found;
}

// A stretch of elements that the loader writes, `state` its place in states_.
void Leftovers::classify_touched(uint64_t first, uint64_t count, uint64_t state,
                                 std::vector<KindRange>* out) const {
  const auto is_zero = [&](uint64_t i) {
    const std::byte* element = &kept_[(state + i) * element_];
    return std::all_of(element, element + element_, [](std::byte b) { return b == std::byte{0}; });
  };
  const auto emit = [&](ByteKind kind, bool zero, uint64_t from, uint64_t to) {
    const uint64_t offset = (first + from) * element_;
    const uint64_t bytes = (to - from) * element_;
    if (!out->empty() && out->back().kind == kind && out->back().zero == zero &&
        out->back().offset + out->back().bytes == offset) {
      out->back().bytes += bytes;
      return;
    }
    out->push_back({0, kind, zero, offset, bytes, 1, 0});
  };
  for (uint64_t i = 0; i < count;) {
    const bool same = states_[state + i] == kSame;
    uint64_t end = i + 1;
    while (end < count && (states_[state + end] == kSame) == same) ++end;
    const bool constant = same && (end - i == count || (end - i) * element_ >= kConstantBytes);
    if (!constant) {
      emit(ByteKind::kComputed, false, i, end);
      i = end;
      continue;
    }
    while (i < end) {
      const bool zero = is_zero(i);
      uint64_t stop = i + 1;
      while (stop < end && is_zero(stop) == zero) ++stop;
      emit(ByteKind::kConstant, zero, i, stop);
      i = stop;
    }
  }
}

std::vector<KindRange> joined(std::span<const KindRange> ranges) {
  std::vector<KindRange> all;
  for (const KindRange& range : ranges) {
    if (!all.empty() && range.count == 1) {
      KindRange& last = all.back();
      const bool alike = last.buffer == range.buffer && last.kind == range.kind &&
                         last.zero == range.zero && last.bytes == range.bytes;
      const uint64_t pitch = last.count == 1 ? range.offset - last.offset : last.pitch;
      if (alike && range.offset == last.offset + pitch * last.count) {
        last.pitch = pitch;
        ++last.count;
        continue;
      }
    }
    all.push_back(range);
  }
  return all;
}

}  // namespace wb::probe
