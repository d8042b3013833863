#include "probe/decode.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace wb::probe {
namespace {

// Shorter runs are added element by element.
constexpr uint32_t kWorthARun = 8;

using Coordinate = std::array<int64_t, kMaxRank>;

// The present place in the segments of one plane.
struct Cursor {
  const Segment* segment = nullptr;
  const Segment* end = nullptr;
  uint32_t used = 0;

  uint32_t left() const { return segment->count - used; }
  void skip(uint32_t count) {
    used += count;
    if (used == segment->count) {
      ++segment;
      used = 0;
    }
  }
};

// A digit of a run as a whole number: -1 is no digit.
struct Ramp {
  int64_t first = 0;
  int64_t step = 0;
};

class Decoder {
 public:
  Decoder(const Schema& schema, Family family, const BlockStore& blocks,
          std::span<const std::vector<Segment>> planes)
      : schema_(schema),
        family_(family),
        base_(schema.base(family)),
        number_digits_(static_cast<size_t>(schema.number_digits(family))),
        blocks_(blocks),
        ramps_(planes.size()),
        digits_(planes.size()) {
    for (const std::vector<Segment>& segments : planes) {
      cursors_.push_back({segments.data(), segments.data() + segments.size(), 0});
    }
    int64_t weight = 1;
    for (size_t i = 0; i < number_digits_; ++i, weight *= base_) number_weights_.push_back(weight);
  }

  std::vector<TensorNests> run() {
    int64_t position = 0;
    while (!cursors_.empty() && cursors_[0].segment != cursors_[0].end) {
      uint32_t count = UINT32_MAX;
      bool noise = false, ramps = true;
      for (const Cursor& cursor : cursors_) {
        count = std::min(count, cursor.left());
        const uint32_t block = cursor.segment->block;
        noise |= block == Segment::kNoise ||
                 (block == Segment::kRun && cursor.segment->start == kNoDigit &&
                  cursor.segment->step == 0);
        ramps &= block == Segment::kRun;
      }
      if (ramps) ramps_of_segments(count);
      if (!noise && !(ramps && add_run(position, count))) {
        count = std::min<uint32_t>(count, kBlockDigits);
        add_elements(position, count);
      }
      for (Cursor& cursor : cursors_) cursor.skip(count);
      position += count;
    }
    std::vector<TensorNests> all;
    for (auto& [tensor, builder] : builders_) all.push_back({tensor, fold(builder.take())});
    return all;
  }

 private:
  // The ramps of the next `count` elements, where all planes are in runs.
  void ramps_of_segments(uint32_t count) {
    for (size_t p = 0; p < cursors_.size(); ++p) {
      const Segment& segment = *cursors_[p].segment;
      const auto first = static_cast<uint16_t>(segment.start + segment.step * cursors_[p].used);
      set_ramp(p, first, count == 1 ? uint16_t{0} : segment.step);
    }
  }

  void set_ramp(size_t plane, uint16_t first, uint16_t step) {
    ramps_[plane] = {first == kNoDigit ? -1 : first, static_cast<int16_t>(step)};
  }

  // `count` elements with ramps_. False when they are not one run of one dimension.
  bool add_run(int64_t position, uint32_t count) {
    const int64_t last = int64_t{count} - 1;
    for (const Ramp& ramp : ramps_) {
      const int64_t end = ramp.first + ramp.step * last;
      // Monotone: digits in between are digits when both ends are.
      if (ramp.first < 0 || ramp.first >= base_ || end < 0 || end >= base_) return false;
    }
    int64_t number = 0;
    for (size_t p = 0; p < number_digits_; ++p) {
      if (ramps_[p].step != 0) return false;
      number += ramps_[p].first * number_weights_[p];
    }
    const auto index = tensor_of(number);
    if (!index) return true;
    const ProbedTensor& tensor = schema_.tensors()[*index];
    Coordinate coord{};
    int dim = -1;
    int64_t step = 0;
    size_t p = number_digits_;
    for (int d = 0; d < tensor.rank; ++d) {
      const auto at = static_cast<size_t>(d);
      int64_t weight = 1, step_here = 0;
      for (int k = 0; k < tensor.digits[at]; ++k, ++p, weight *= base_) {
        coord[at] += ramps_[p].first * weight;
        step_here += ramps_[p].step * weight;
      }
      const int64_t end = coord[at] + step_here * last;
      if (coord[at] >= tensor.shape[at] || end < 0 || end >= tensor.shape[at]) return false;
      if (step_here == 0) continue;
      if (dim >= 0) return false;
      dim = d;
      step = step_here;
    }
    for (; p < cursors_.size(); ++p) {
      if (ramps_[p].step != 0) return false;
      if (ramps_[p].first != schema_.spare(tensor, static_cast<int>(p))) return true;
    }
    builder(*index).add(position, coord, dim, step, count);
    return true;
  }

  void add_elements(int64_t position, uint32_t count) {
    for (size_t p = 0; p < cursors_.size(); ++p) expand(cursors_[p], count, &digits_[p]);
    for (uint32_t i = 0; i < count;) {
      const uint32_t run = common_run(i, count);
      if (run >= kWorthARun) {
        for (size_t p = 0; p < cursors_.size(); ++p) {
          set_ramp(p, digits_[p][i], static_cast<uint16_t>(digits_[p][i + 1] - digits_[p][i]));
        }
        if (add_run(position + i, run)) {
          i += run;
          continue;
        }
      }
      for (uint32_t end = i + run; i < end; ++i) {
        NestBuilder* const to = add_element(position + i, i);
        if (to == nullptr || to->period() == nullptr) continue;
        const uint32_t skipped = repeat(to, i, count);
        i += skipped;
        if (skipped != 0) end = i + 1;
      }
    }
  }

  // Element i closed a period of `to`. Takes as many further periods at once as the digits go on
  // in the same way; gives how many elements these are.
  uint32_t repeat(NestBuilder* to, uint32_t i, uint32_t count) {
    const NestBuilder::Period period = *to->period();
    if (period.length >= count) return 0;
    const auto length = static_cast<uint32_t>(period.length);
    // Two periods back, so that the last one is known to be like the one before.
    if (i + 1 < 2 * length || count - i <= length) return 0;
    const uint32_t first = i + 1 - length;
    uint32_t alike = count - first;  // elements from `first` on that are as a period before
    const ProbedTensor& tensor = schema_.tensors()[last_tensor_];
    size_t p = 0;
    const auto check = [&](int64_t wanted_step, int digits) {
      int64_t weight = 1, step = 0;
      for (int k = 0; k < digits; ++k, ++p, weight *= base_) {
        const uint16_t* at = &digits_[p][first];
        const auto by = static_cast<uint16_t>(at[0] - at[-static_cast<int64_t>(length)]);
        step += static_cast<int16_t>(by) * weight;
        alike = std::min(alike, length_of_repetition(at, length, by, alike));
      }
      if (step != wanted_step) alike = 0;
    };
    // One tensor only: the digits of its number do not change at all.
    for (; p < number_digits_; ++p) {
      const uint16_t* from = &digits_[p][first - length];
      const size_t same = std::count(from, from + length + 1, from[0]) == length + 1
                              ? run_length(from, length + alike)
                              : 0;
      alike = same > length ? std::min<uint32_t>(alike, static_cast<uint32_t>(same) - length) : 0;
    }
    for (int d = 0; d < tensor.rank; ++d) {
      check(d == period.dim ? period.step : 0, tensor.digits[static_cast<size_t>(d)]);
    }
    while (p < cursors_.size()) check(0, 1);  // spare planes
    if (alike < 2 * length) return 0;
    const uint32_t times = alike / length - 1;
    to->repeat(times);
    return times * length;
  }

  // How many digits from `at` on are those `period` before plus `by`, and are digits.
  uint32_t length_of_repetition(const uint16_t* at, uint32_t period, uint16_t by,
                                uint32_t count) const {
    const uint16_t* before = at - period;
    uint32_t done = 0;
    constexpr uint32_t kStep = 64;
    for (; done + kStep <= count; done += kStep) {
      uint16_t wrong = 0;
      for (uint32_t k = 0; k < kStep; ++k) {
        const uint16_t digit = at[done + k];
        wrong |= static_cast<uint16_t>(digit ^ static_cast<uint16_t>(before[done + k] + by));
        wrong |= digit == kNoDigit ? 1 : 0;
      }
      if (wrong != 0) break;
    }
    while (done < count && at[done] != kNoDigit &&
           at[done] == static_cast<uint16_t>(before[done] + by)) {
      ++done;
    }
    return done;
  }

  // How long all planes go on with equal steps from element i on.
  uint32_t common_run(uint32_t i, uint32_t count) const {
    // First a look: a plane that goes on for long is not walked again and again while others
    // change.
    size_t run = count - i;
    if (run < kWorthARun) return 1;
    for (const auto& digits : digits_) {
      if (run_length(&digits[i], kWorthARun) < kWorthARun) return 1;
    }
    for (const auto& digits : digits_) run = run_length(&digits[i], run);
    return static_cast<uint32_t>(run);
  }

  // The builder that took it; null when it is no element of a tensor.
  NestBuilder* add_element(int64_t position, uint32_t i) {
    int64_t number = 0;
    for (size_t p = 0; p < number_digits_; ++p) {
      const uint16_t digit = digits_[p][i];
      if (digit >= base_) return nullptr;
      number += digit * number_weights_[p];
    }
    const auto index = tensor_of(number);
    if (!index) return nullptr;
    const ProbedTensor& tensor = schema_.tensors()[*index];
    Coordinate coord{};
    size_t p = number_digits_;
    for (int d = 0; d < tensor.rank; ++d) {
      const auto at = static_cast<size_t>(d);
      int64_t weight = 1;
      for (int k = 0; k < tensor.digits[at]; ++k, ++p, weight *= base_) {
        const uint16_t digit = digits_[p][i];
        if (digit >= base_) return nullptr;
        coord[at] += digit * weight;
      }
      if (coord[at] >= tensor.shape[at]) return nullptr;
    }
    for (; p < cursors_.size(); ++p) {
      if (digits_[p][i] != schema_.spare(tensor, static_cast<int>(p))) return nullptr;
    }
    NestBuilder& to = builder(*index);
    to.add(position, coord, -1, 0, 1);
    return &to;
  }

  void expand(const Cursor& cursor, uint32_t count, std::vector<uint16_t>* digits) const {
    digits->resize(kBlockDigits);
    uint16_t* const out = digits->data();
    const Segment& segment = *cursor.segment;
    if (segment.block == Segment::kRun) {
      auto digit = static_cast<uint16_t>(segment.start + segment.step * cursor.used);
      for (uint32_t i = 0; i < count; ++i, digit = static_cast<uint16_t>(digit + segment.step)) {
        out[i] = digit;
      }
      return;
    }
    const uint16_t* from = blocks_.block(segment.block) + cursor.used;
    for (uint32_t i = 0; i < count; ++i) out[i] = static_cast<uint16_t>(from[i] + segment.start);
  }

  std::optional<uint32_t> tensor_of(int64_t number) const {
    const std::vector<uint32_t>& members = schema_.members(family_);
    if (number >= static_cast<int64_t>(members.size())) return std::nullopt;
    const uint32_t index = members[static_cast<size_t>(number)];
    if (schema_.tensors()[index].empty) return std::nullopt;
    return index;
  }

  NestBuilder& builder(uint32_t tensor) {
    if (last_ == nullptr || last_tensor_ != tensor) {
      last_ = &builders_[tensor];
      last_tensor_ = tensor;
    }
    return *last_;
  }

  const Schema& schema_;
  const Family family_;
  const int64_t base_;
  const size_t number_digits_;
  const BlockStore& blocks_;
  std::vector<int64_t> number_weights_;
  std::vector<Cursor> cursors_;
  std::vector<Ramp> ramps_;
  std::vector<std::vector<uint16_t>> digits_;
  std::map<uint32_t, NestBuilder> builders_;
  NestBuilder* last_ = nullptr;  // of last_tensor_; nodes of a map stay where they are
  uint32_t last_tensor_ = 0;
};

}  // namespace

std::vector<TensorNests> decode(const Schema& schema, Family family, const BlockStore& blocks,
                                std::span<const std::vector<Segment>> planes) {
  return Decoder(schema, family, blocks, planes).run();
}

}  // namespace wb::probe
