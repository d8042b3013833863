#include "layout/box.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "base/checked.h"

namespace wb {
namespace {

// Coordinates are below 2^63, so sums, products and least common multiples of two of them fit.
using Wide = __int128;

// x with a * x = 1 (mod m), for coprime a and m, m >= 1.
Wide inverse(Wide a, Wide m) {
  Wide r0 = m, r1 = a % m;
  Wide t0 = 0, t1 = 1;
  while (r1 != 0) {
    const Wide q = r0 / r1;
    r0 -= q * r1;
    std::swap(r0, r1);
    t0 -= q * t1;
    std::swap(t0, t1);
  }
  return t0 < 0 ? t0 + m : t0;
}

Progression canonical(Wide start, Wide count, Wide step) {
  return {static_cast<int64_t>(start), static_cast<int64_t>(count),
          count == 1 ? 1 : static_cast<int64_t>(step)};
}

// What is left of [0, count) without {first, first + step, ..., first + (taken - 1) * step}, as the
// cheaper of two covers. Both are counted before either is made, because neither is bounded by
// anything but the numbers themselves.
//
// By gaps: the interval before, the taken - 1 intervals between, the interval after. All dense.
// By residues: with step = p1 * p2 * ... the numbers outside the residue class of `first` are the
// p1 - 1 other classes modulo p1, then within the remaining one the p2 - 1 others modulo p1 * p2,
// and so on; and of the class itself what lies before and after. A step of 4096 costs 12 + 2.
class Remainder {
 public:
  Remainder(int64_t count, int64_t first, int64_t taken, int64_t step)
      : count_(count), first_(first), taken_(taken), step_(step) {
    gap_pieces_ = (first > 0 ? 1 : 0) + (after_gaps() > 0 ? 1 : 0);
    if (step > 1) gap_pieces_ += static_cast<uint64_t>(taken - 1);
    by_residue_ = factor_if_cheaper();
  }

  uint64_t pieces() const { return by_residue_ ? residue_pieces_ : gap_pieces_; }

  // Calls emit(start, count, step) for each piece, in index space.
  template <typename Emit>
  void for_each(Emit emit) const {
    if (by_residue_) {
      emit_residues(emit);
    } else {
      emit_gaps(emit);
    }
  }

 private:
  int64_t last() const { return first_ + (taken_ - 1) * step_; }
  int64_t after_gaps() const { return count_ - 1 - last(); }

  // Fills primes_ when the cover by residues has fewer pieces. Trial division stops at the bound
  // beyond which it cannot win, so it takes at most 2^21 steps: taken * step < 2^63.
  bool factor_if_cheaper() {
    if (taken_ < 3 || step_ < 2) return false;
    const int64_t before = first_ / step_;
    const int64_t after = after_gaps() / step_;
    uint64_t cost = (before > 0 ? 1 : 0) + (after > 0 ? 1 : 0);
    int64_t rest = step_;
    for (int64_t p = 2; p <= rest / p && cost < gap_pieces_; ++p) {
      if (p - 1 >= taken_ + 2) return false;
      while (rest % p == 0) {
        primes_.push_back(p);
        cost += static_cast<uint64_t>(p - 1);
        rest /= p;
      }
    }
    if (rest > 1) {
      primes_.push_back(rest);
      cost += static_cast<uint64_t>(rest - 1);
    }
    residue_pieces_ = cost;
    return cost < gap_pieces_;
  }

  template <typename Emit>
  void emit_gaps(Emit emit) const {
    if (first_ > 0) emit(int64_t{0}, first_, int64_t{1});
    if (step_ > 1) {
      for (int64_t i = 0; i + 1 < taken_; ++i) emit(first_ + i * step_ + 1, step_ - 1, int64_t{1});
    }
    if (after_gaps() > 0) emit(last() + 1, after_gaps(), int64_t{1});
  }

  template <typename Emit>
  void emit_residues(Emit emit) const {
    int64_t modulus = 1;
    for (const int64_t p : primes_) {
      const int64_t wider = modulus * p;
      // taken >= 3 makes the index space longer than 2 * step, so no class is empty.
      for (int64_t r = 1; r < p; ++r) {
        const int64_t start = static_cast<int64_t>((Wide{first_} + Wide{r} * modulus) % wider);
        emit(start, (count_ - 1 - start) / wider + 1, wider);
      }
      modulus = wider;
    }
    const int64_t before = first_ / step_;
    if (before > 0) emit(first_ % step_, before, step_);
    const int64_t after = after_gaps() / step_;
    if (after > 0) emit(last() + step_, after, step_);
  }

  int64_t count_;
  int64_t first_;
  int64_t taken_;
  int64_t step_;
  uint64_t gap_pieces_ = 0;
  uint64_t residue_pieces_ = 0;
  bool by_residue_ = false;
  std::vector<int64_t> primes_;
};

// `part` is a sub-progression of `whole`, as intersect() gives it.
Remainder remainder(const Progression& whole, const Progression& part) {
  const int64_t step = part.count == 1 ? 1 : part.step / whole.step;
  return Remainder(whole.count, whole.index_of(part.start), part.count, step);
}

bool contains_all(const Progression& outer, const Progression& inner) {
  return outer.contains(inner.start) && outer.contains(inner.last()) &&
         (inner.count == 1 || inner.step % outer.step == 0);
}

}  // namespace

std::optional<Progression> intersect(const Progression& a, const Progression& b) {
  const int64_t low = std::max(a.start, b.start);
  const int64_t high = std::min(a.last(), b.last());
  if (low > high) return std::nullopt;
  if (a.step == 1 && b.step == 1) return canonical(low, Wide{high} - low + 1, 1);

  const int64_t g = std::gcd(a.step, b.step);
  const int64_t distance = b.start - a.start;  // both are >= 0: no overflow
  // NOLINTBEGIN(clang-analyzer-core.DivideZero): steps are positive.
  if (distance % g != 0) return std::nullopt;
  const Wide modulus = b.step / g;
  const Wide period = Wide{a.step} * modulus;
  Wide index = Wide{distance / g} % modulus * inverse(a.step / g, modulus) % modulus;
  if (index < 0) index += modulus;
  Wide first = a.start + Wide{a.step} * index;
  if (first < low) first += (low - first + period - 1) / period * period;
  if (first > high) return std::nullopt;
  return canonical(first, (high - first) / period + 1, period);
  // NOLINTEND(clang-analyzer-core.DivideZero)
}

Result<Box> Box::make(std::span<const Progression> dims) {
  if (dims.size() > static_cast<size_t>(kMaxRank)) {
    return Status(Code::kInvalidArgument, "a box of " + std::to_string(dims.size()) +
                                              " dimensions; at most " + std::to_string(kMaxRank));
  }
  Box box;
  int64_t size = 1;
  for (const Progression& p : dims) {
    const std::string where = "dimension " + std::to_string(box.rank_) + " of a box: ";
    if (p.count < 1) return Status(Code::kInvalidArgument, where + "count is below 1");
    if (p.start < 0) return Status(Code::kInvalidArgument, where + "start is negative");
    if (p.step < 1) return Status(Code::kInvalidArgument, where + "step is below 1");
    const auto span = checked_mul<int64_t>(p.count - 1, p.step);
    if (!span || !checked_add(p.start, *span)) {
      return Status(Code::kInvalidArgument, where + "its last value overflows");
    }
    const auto grown = checked_mul(size, p.count);
    if (!grown) return Status(Code::kInvalidArgument, where + "the box has 2^63 elements or more");
    size = *grown;
    box.dims_[static_cast<size_t>(box.rank_++)] = canonical(p.start, p.count, p.step);
  }
  return box;
}

Result<Box> Box::whole(std::span<const int64_t> shape) {
  std::vector<Progression> dims;
  dims.reserve(shape.size());
  for (const int64_t count : shape) dims.push_back({0, count, 1});
  return make(dims);
}

Box Box::with_dim(int d, const Progression& p) const {
  Box out = *this;
  out.dims_[static_cast<size_t>(d)] = p;
  return out;
}

int64_t Box::size() const {
  int64_t size = 1;
  for (int d = 0; d < rank_; ++d) size *= dim(d).count;
  return size;
}

bool Box::contains(std::span<const int64_t> coordinate) const {
  if (coordinate.size() != static_cast<size_t>(rank_)) return false;
  for (int d = 0; d < rank_; ++d) {
    if (!dim(d).contains(coordinate[static_cast<size_t>(d)])) return false;
  }
  return true;
}

bool Box::contains(const Box& other) const {
  if (other.rank_ != rank_) return false;
  for (int d = 0; d < rank_; ++d) {
    if (!contains_all(dim(d), other.dim(d))) return false;
  }
  return true;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  if (a.rank() != b.rank()) return std::nullopt;
  Box out = a;
  for (int d = 0; d < a.rank(); ++d) {
    const auto common = intersect(a.dim(d), b.dim(d));
    if (!common) return std::nullopt;
    out = out.with_dim(d, *common);
  }
  return out;
}

void subtract(const Box& a, const Box& b, std::vector<Box>* out) {
  const auto common = intersect(a, b);
  if (!common) {
    out->push_back(a);
    return;
  }
  // `rest` shrinks to the common part dimension by dimension; what each step cuts off is disjoint
  // from all that follows. The first dimension goes first, so that whole rows stay whole.
  Box rest = a;
  for (int d = 0; d < a.rank(); ++d) {
    const Progression whole = a.dim(d);
    remainder(whole, common->dim(d)).for_each([&](int64_t start, int64_t count, int64_t step) {
      out->push_back(rest.with_dim(
          d, canonical(whole.start + Wide{start} * whole.step, count, Wide{step} * whole.step)));
    });
    rest = rest.with_dim(d, common->dim(d));
  }
}

uint64_t subtract_count(const Box& a, const Box& b) {
  const auto common = intersect(a, b);
  if (!common) return 1;
  uint64_t pieces = 0;
  for (int d = 0; d < a.rank(); ++d) {
    const auto sum = checked_add(pieces, remainder(a.dim(d), common->dim(d)).pieces());
    pieces = sum.value_or(std::numeric_limits<uint64_t>::max());
  }
  return pieces;
}

}  // namespace wb
