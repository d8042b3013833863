#include "layout/strided.h"

#include <algorithm>
#include <numeric>

namespace wb {
namespace {

// Addresses are below 2^62, so sums and products of two of them fit.
using Wide = __int128;

constexpr Wide kAddressEnd = Wide{1} << 62;

// b > 0.
Wide floor_div(Wide a, Wide b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
Wide ceil_div(Wide a, Wide b) { return -floor_div(-a, b); }

// The smallest x >= 0 with a * x mod m in [l, r], for 0 <= l <= r < m; -1 if there is none. Halves
// m at each call.
Wide first_hit(Wide a, Wide m, Wide l, Wide r) {
  if (l == 0) return 0;
  a %= m;
  if (a == 0) return -1;
  if (2 * a > m) return first_hit(m - a, m, m - r, m - l);
  const Wide direct = ceil_div(l, a);
  if (a * direct <= r) return direct;
  // a * x = m * y + v with v in [l, r], which holds no multiple of a: so y is the smallest with
  // -m * y mod a in [l mod a, r mod a].
  const Wide y = first_hit((a - m % a) % a, a, l % a, r % a);
  return y < 0 ? y : ceil_div(l + m * y, a);
}

// Is there an x with 0 <= x_i <= max_i and low <= sum(x_i * stride_i) <= high?
class Window {
 public:
  Window(Wide low, Wide high) : low_(low), high_(high) {}

  // stride != 0. A term over [0, max].
  void add(Wide stride, Wide max) {
    if (max == 0) return;
    if (stride < 0) {  // x -> max - x
      low_ -= stride * max;
      high_ -= stride * max;
      stride = -stride;
    }
    terms_[static_cast<size_t>(count_++)] = {stride, max};
  }

  bool reachable(int64_t* budget) {
    if (--*budget <= 0) return false;
    if (const auto known = simplify()) return *known;
    if (count_ == 1) return one_term();
    if (count_ == 2) return two_terms();
    return enumerate(budget);
  }

 private:
  struct Term {
    Wide stride;
    Wide max;
  };
  Term& term(int i) { return terms_[static_cast<size_t>(i)]; }
  void drop(int i) {
    for (--count_; i < count_; ++i) term(i) = term(i + 1);
  }

  Wide total() {
    Wide sum = 0;
    for (int i = 0; i < count_; ++i) sum += term(i).stride * term(i).max;
    return sum;
  }

  std::optional<bool> trivial() {
    const Wide sum = total();
    if (low_ > high_ || high_ < 0 || low_ > sum) return false;
    if (low_ <= 0 || high_ >= sum) return true;
    return std::nullopt;
  }

  // Afterwards no stride is as narrow as the window. Each step below keeps the answer.
  std::optional<bool> simplify() {
    do {
      if (const auto known = trivial()) return known;
      std::sort(terms_.begin(), terms_.begin() + count_,
                [](const Term& a, const Term& b) { return a.stride < b.stride; });
    } while (absorb() || merge() || reduce());
    tighten();
    return trivial();
  }

  // Cuts off values of x that the window or the other terms rule out. One pass: repeated passes can
  // advance by one at a time, for ever.
  void tighten() {
    for (int i = count_ - 1; i >= 0; --i) {
      Term& t = term(i);
      const Wide rest = total() - t.stride * t.max;
      const Wide least = std::max(Wide{0}, ceil_div(low_ - rest, t.stride));
      const Wide most = std::min(t.max, floor_div(high_, t.stride));
      if (least > most) {
        low_ = 1;  // an empty window
        high_ = 0;
        return;
      }
      low_ -= least * t.stride;
      high_ -= least * t.stride;
      t.max = most - least;
      if (t.max == 0) drop(i);
    }
  }

  // A stride no wider than the window leaves no hole: the window grows by all its values.
  bool absorb() {
    const Term narrowest = term(0);
    if (narrowest.stride > high_ - low_ + 1) return false;
    low_ -= narrowest.stride * narrowest.max;
    drop(0);
    return true;
  }

  // x * s + y * q * s takes every multiple of s up to its largest when x reaches q - 1.
  bool merge() {
    for (int i = 0; i < count_; ++i) {
      for (int j = i + 1; j < count_; ++j) {
        const Wide q = term(j).stride / term(i).stride;
        if (term(j).stride % term(i).stride != 0 || term(i).max < q - 1) continue;
        term(i).max += q * term(j).max;
        drop(j);
        return true;
      }
    }
    return false;
  }

  bool reduce() {
    int64_t g = 0;
    for (int i = 0; i < count_; ++i) g = std::gcd(g, static_cast<int64_t>(term(i).stride));
    if (g <= 1) return false;
    for (int i = 0; i < count_; ++i) term(i).stride /= g;
    low_ = ceil_div(low_, g);
    high_ = floor_div(high_, g);
    return true;
  }

  bool one_term() {
    const Wide x = ceil_div(low_, term(0).stride);
    return x <= term(0).max && x * term(0).stride <= high_;
  }

  // x * s + y * t: the x for which some y in [0, max] can come near enough are an interval, and in
  // it y fits exactly when (high - s * x) mod t <= high - low.
  bool two_terms() {
    const Term s = term(0);
    const Term t = term(1);
    const Wide first = std::max(Wide{0}, ceil_div(low_ - t.stride * t.max, s.stride));
    const Wide last = std::min(s.max, floor_div(high_, s.stride));
    if (first > last) return false;
    const Wide m = t.stride;
    const Wide width = high_ - low_;  // < m: absorb() is done
    Wide base = (high_ - s.stride * first) % m;
    if (base < 0) base += m;
    if (base <= width) return true;
    // (base - s * x) mod m in [0, width]  <=>  s * x mod m in [base - width, base].
    const Wide x = first_hit(s.stride % m, m, base - width, base);
    return x >= 0 && x <= last - first;
  }

  // Splits by the values of the term that has the fewest.
  bool enumerate(int64_t* budget) {
    int chosen = count_ - 1;
    for (int i = count_ - 1; i >= 0; --i) {
      if (term(i).max < term(chosen).max) chosen = i;
    }
    const Term t = term(chosen);
    Window rest = *this;
    rest.drop(chosen);
    for (Wide x = 0; x <= t.max && *budget > 0; ++x) {
      Window at = rest;
      at.low_ -= x * t.stride;
      at.high_ -= x * t.stride;
      if (at.reachable(budget)) return true;
    }
    return false;
  }

  Wide low_;
  Wide high_;
  int count_ = 0;
  std::array<Term, size_t{2} * kMaxRank> terms_{};
};

// Dimension `d` differs by at least one, those before it not at all, those after it by anything.
bool folds_in(const StridedBytes& set, int d, int64_t* budget) {
  const auto at = [&](int i) { return set.level[static_cast<size_t>(i)]; };
  Wide offset = at(d).stride;
  for (int i = d + 1; i < set.levels; ++i) offset -= Wide{at(i).stride} * at(i).max;
  Window window(-(set.run - 1) - offset, set.run - 1 - offset);
  window.add(at(d).stride, at(d).max - 1);
  for (int i = d + 1; i < set.levels; ++i) window.add(at(i).stride, 2 * Wide{at(i).max});
  return window.reachable(budget);
}

// Narrows level `d` of `set` to its first index that keeps `holds` true.
template <typename Holds>
void pin(StridedBytes* set, int d, Holds holds) {
  auto& level = set->level[static_cast<size_t>(d)];
  int64_t first = 0;
  int64_t last = level.max;
  const int64_t low = set->low;
  while (first < last) {
    const int64_t middle = first + (last - first) / 2;
    set->low = low + first * level.stride;
    level.max = middle - first;
    if (holds(*set)) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  set->low = low + first * level.stride;
  level.max = 0;
}

}  // namespace

int64_t StridedBytes::high() const {
  int64_t end = low + run;
  for (int d = 0; d < levels; ++d) {
    end += level[static_cast<size_t>(d)].stride * level[static_cast<size_t>(d)].max;
  }
  return end;
}

StridedBytes run_of_bytes(int64_t low, int64_t run) {
  StridedBytes set;
  set.low = low;
  set.run = run;
  return set;
}

std::optional<StridedBytes> bytes_of_piece(const Piece& piece, int64_t unit) {
  StridedBytes set;
  Wide low = piece.offset;
  Wide high = low + unit;
  for (int d = 0; d < piece.box.rank(); ++d) {
    const int64_t max = piece.box.dim(d).count - 1;
    const int64_t stride = piece.stride[static_cast<size_t>(d)];
    if (max == 0 || stride == 0) continue;
    const Wide reach = Wide{stride} * max;
    (reach < 0 ? low : high) += reach;
    if (low < 0 || high > kAddressEnd) return std::nullopt;
    set.level[static_cast<size_t>(set.levels++)] = {stride < 0 ? -stride : stride, max};
  }
  if (low < 0 || high > kAddressEnd) return std::nullopt;
  std::sort(set.level.begin(), set.level.begin() + set.levels,
            [](const auto& a, const auto& b) { return a.stride > b.stride; });
  set.low = static_cast<int64_t>(low);
  set.run = unit;
  while (set.levels > 0 && set.level[static_cast<size_t>(set.levels - 1)].stride == set.run) {
    set.run *= set.level[static_cast<size_t>(set.levels - 1)].max + 1;
    --set.levels;
  }
  return set;
}

bool folds_over_itself(const StridedBytes& set, int64_t* budget) {
  Wide extent = set.run;
  bool nested = true;
  for (int d = set.levels - 1; d >= 0; --d) {
    const auto& level = set.level[static_cast<size_t>(d)];
    if (level.stride < extent) nested = false;
    extent += Wide{level.stride} * level.max;
  }
  if (nested) return false;
  for (int d = 0; d < set.levels; ++d) {
    if (folds_in(set, d, budget)) return true;
  }
  return false;
}

bool overlap(const StridedBytes& a, const StridedBytes& b, int64_t* budget) {
  if (a.high() <= b.low || b.high() <= a.low) return false;
  // A byte is common when a's run starts less than b's run after b's, or less than a's run before.
  const Wide distance = Wide{b.low} - a.low;
  Window window(distance - (a.run - 1), distance + (b.run - 1));
  for (int d = 0; d < a.levels; ++d) {
    window.add(a.level[static_cast<size_t>(d)].stride, a.level[static_cast<size_t>(d)].max);
  }
  for (int d = 0; d < b.levels; ++d) {
    window.add(-Wide{b.level[static_cast<size_t>(d)].stride}, b.level[static_cast<size_t>(d)].max);
  }
  return window.reachable(budget);
}

int64_t common_byte(StridedBytes a, StridedBytes b, int64_t* budget) {
  for (int d = 0; d < a.levels; ++d) {
    pin(&a, d, [&](const StridedBytes& part) { return overlap(part, b, budget); });
  }
  for (int d = 0; d < b.levels; ++d) {
    pin(&b, d, [&](const StridedBytes& part) { return overlap(a, part, budget); });
  }
  return std::max(a.low, b.low);
}

int64_t folded_byte(const StridedBytes& set, int64_t* budget) {
  for (int d = 0; d < set.levels; ++d) {
    if (!folds_in(set, d, budget)) continue;
    // Two index vectors that differ first in d, by `by` there: the first is where the difference
    // reaches the second. All indices before d are free: zero. Shift the set by each `by` until it
    // meets itself with the dimensions up to d fixed.
    StridedBytes inner = set;
    for (int i = 0; i <= d; ++i) inner.level[static_cast<size_t>(i)].max = 0;
    StridedBytes moved = inner;
    auto& level = moved.level[static_cast<size_t>(d)];
    level.max = set.level[static_cast<size_t>(d)].max - 1;
    moved.low += level.stride;
    return common_byte(inner, moved, budget);
  }
  return set.low;
}

}  // namespace wb
