#include "layout/box.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "many.h"

namespace wb {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

std::set<int64_t> values(const Progression& p) {
  std::set<int64_t> out;
  for (int64_t i = 0; i < p.count; ++i) out.insert(p.start + i * p.step);
  return out;
}

using Coordinate = std::vector<int64_t>;

std::multiset<Coordinate> coordinates(const Box& box) {
  std::multiset<Coordinate> out = {{}};
  for (int d = 0; d < box.rank(); ++d) {
    std::multiset<Coordinate> longer;
    for (const Coordinate& head : out) {
      for (const int64_t value : values(box.dim(d))) {
        Coordinate next = head;
        next.push_back(value);
        longer.insert(std::move(next));
      }
    }
    out = std::move(longer);
  }
  return out;
}

bool canonical(const Progression& p) {
  return p.start >= 0 && p.count >= 1 && p.step >= 1 && (p.count > 1 || p.step == 1);
}

// A progression inside [0, 40).
rc::Gen<Progression> small_progression() {
  return rc::gen::exec([] {
    const auto start = *rc::gen::inRange<int64_t>(0, 39);
    const auto step = *rc::gen::inRange<int64_t>(1, 14);
    const auto count = *rc::gen::inRange<int64_t>(1, (39 - start) / step + 2);
    return Progression{start, count, count == 1 ? 1 : step};
  });
}

// A progression anywhere, with any step.
rc::Gen<Progression> any_progression() {
  return rc::gen::exec([] {
    const auto shift = *rc::gen::inRange<int>(0, 62);
    const int64_t start = *rc::gen::inRange<int64_t>(0, kMax >> shift);
    const auto step_shift = *rc::gen::inRange<int>(0, 62);
    const int64_t step = *rc::gen::inRange<int64_t>(1, std::max<int64_t>(2, kMax >> step_shift));
    const int64_t most = (kMax - start) / step;  // one less than fit: 2^63 values would not count
    const int64_t count = *rc::gen::inRange<int64_t>(1, std::max<int64_t>(2, most));
    return Progression{start, count, count == 1 ? 1 : step};
  });
}

Box box_of(std::vector<Progression> dims) {
  auto box = Box::make(dims);
  EXPECT_TRUE(box.ok()) << box.status().to_string();
  return box.ok() ? *box : Box();
}

rc::Gen<Box> small_box(int rank) {
  return rc::gen::exec([rank] {
    std::vector<Progression> dims;
    for (int d = 0; d < rank; ++d) {
      const auto start = *rc::gen::inRange<int64_t>(0, 9);
      const auto step = *rc::gen::inRange<int64_t>(1, 5);
      dims.push_back({start, *rc::gen::inRange<int64_t>(1, (9 - start) / step + 2), step});
    }
    return box_of(dims);
  });
}

TEST(Progression, IntersectionIsThatOfTheSets) {
  EXPECT_TRUE(rc::check("small", many([] {
                          const auto a = *small_progression();
                          const auto b = *small_progression();
                          std::set<int64_t> expected;
                          const auto in_a = values(a), in_b = values(b);
                          std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                                                std::inserter(expected, expected.end()));
                          const auto common = intersect(a, b);
                          RC_ASSERT(common.has_value() == !expected.empty());
                          if (!common) return;
                          RC_ASSERT(canonical(*common));
                          RC_ASSERT(values(*common) == expected);
                        })));
}

// Without enumerating: the result is inside both, starts with the first common value (no multiple
// of the period before it fits) and ends with the last, and nothing between is missed because the
// period is the least common multiple.
TEST(Progression, IntersectionIsExactAtTheEndsOfInt64) {
  int met = 0;
  EXPECT_TRUE(rc::check(
      "large", many([&met] {
        const auto a = *any_progression();
        auto b = *any_progression();
        if (*rc::gen::inRange(0, 2) == 1) {  // make meeting likely: b passes through a value of a
          const int64_t index = *rc::gen::inRange<int64_t>(0, a.count);
          const int64_t through = a.start + index * a.step;
          const int64_t back =
              std::min<int64_t>(through / b.step, *rc::gen::inRange<int64_t>(0, 1000));
          const int64_t start = through - back * b.step;
          const int64_t most = (kMax - start) / b.step;
          const int64_t count = std::max<int64_t>(back + 1, std::min(most, b.count));
          b = {start, count, count == 1 ? 1 : b.step};
        }
        const auto common = intersect(a, b);
        const auto mirrored = intersect(b, a);
        RC_ASSERT(common == mirrored);
        const __int128 period = static_cast<__int128>(a.step) / std::gcd(a.step, b.step) * b.step;
        if (!common) {
          const int64_t low = std::max(a.start, b.start);
          const int64_t high = std::min(a.last(), b.last());
          RC_ASSERT(low > high || (b.start - a.start) % std::gcd(a.step, b.step) != 0 ||
                    static_cast<__int128>(high) - low + 1 < period);
          return;
        }
        ++met;
        RC_ASSERT(canonical(*common));
        for (const int64_t value : {common->start, common->last()}) {
          RC_ASSERT(a.contains(value));
          RC_ASSERT(b.contains(value));
        }
        RC_ASSERT(common->count == 1 || common->step == period);
        RC_ASSERT(common->start - period < std::max(a.start, b.start));
        RC_ASSERT(common->last() + period > std::min(a.last(), b.last()));
      })));
  EXPECT_GT(met, 10) << "the generator must make progressions that meet";
}

TEST(Box, IntersectionAndContainmentAreThoseOfTheSets) {
  EXPECT_TRUE(rc::check(many([] {
    const int rank = *rc::gen::inRange(0, 4);
    const auto a = *small_box(rank);
    const auto b = *small_box(rank);
    const auto in_a = coordinates(a), in_b = coordinates(b);
    std::multiset<Coordinate> expected;
    std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                          std::inserter(expected, expected.end()));
    const auto common = intersect(a, b);
    RC_ASSERT(common.has_value() == !expected.empty());
    if (common) RC_ASSERT(coordinates(*common) == expected);
    RC_ASSERT(a.contains(b) == (expected.size() == in_b.size()));
    RC_ASSERT(static_cast<size_t>(a.size()) == in_a.size());
    for (const auto& at : in_b) RC_ASSERT(a.contains(at) == (in_a.count(at) == 1));
  })));
}

// As multisets: a value twice would be an overlap of the parts.
TEST(Box, DifferenceIsDisjointAndExact) {
  EXPECT_TRUE(rc::check(many([] {
    const int rank = *rc::gen::inRange(0, 4);
    const auto a = *small_box(rank);
    const auto b = *small_box(rank);
    const auto in_a = coordinates(a), in_b = coordinates(b);
    std::multiset<Coordinate> expected;
    std::set_difference(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                        std::inserter(expected, expected.end()));
    std::vector<Box> parts;
    subtract(a, b, &parts);
    RC_ASSERT(parts.size() == subtract_count(a, b));
    std::multiset<Coordinate> actual;
    for (const Box& part : parts) {
      for (int d = 0; d < rank; ++d) RC_ASSERT(canonical(part.dim(d)));
      actual.merge(coordinates(part));
    }
    RC_ASSERT(actual == expected);
  })));
}

// Long enough for the cover by residues, which the boxes above are too short for.
TEST(Box, DifferenceOfLongProgressions) {
  EXPECT_TRUE(rc::check([] {
    const auto a_step = *rc::gen::inRange<int64_t>(1, 4);
    const auto count = *rc::gen::inRange<int64_t>(1, 2000);
    const Progression a{*rc::gen::inRange<int64_t>(0, 50), count, count == 1 ? 1 : a_step};
    const auto first = *rc::gen::inRange<int64_t>(0, count);
    const auto k = *rc::gen::inRange<int64_t>(1, 130);
    const auto taken = *rc::gen::inRange<int64_t>(1, (count - 1 - first) / k + 2);
    const Progression b{a.start + first * a.step, taken, taken == 1 ? 1 : k * a.step};
    std::vector<Box> parts;
    subtract(box_of({a}), box_of({b}), &parts);
    RC_ASSERT(parts.size() == subtract_count(box_of({a}), box_of({b})));
    const auto removed = values(b);
    std::set<int64_t> left = values(a);
    for (const int64_t value : removed) left.erase(value);
    size_t total = 0;
    for (const Box& part : parts) {
      const auto in_part = values(part.dim(0));
      total += in_part.size();
      for (const int64_t value : in_part) RC_ASSERT(left.count(value) == 1);
    }
    RC_ASSERT(total == left.size());
    if (taken == 1 || k == 1) RC_ASSERT(parts.size() <= 2u);
    RC_ASSERT(parts.size() <= static_cast<size_t>(2 + std::min(taken - 1, k - 1)));
  }));
}

size_t parts_of(const Progression& a, const Progression& b) {
  std::vector<Box> parts;
  subtract(box_of({a}), box_of({b}), &parts);
  EXPECT_EQ(parts.size(), subtract_count(box_of({a}), box_of({b})));
  return parts.size();
}

TEST(Box, DifferenceHasFewParts) {
  EXPECT_EQ(parts_of({0, 1 << 20, 1}, {5, 100, 1}), 2u) << "what lies before and after";
  EXPECT_EQ(parts_of({0, 1 << 20, 1}, {0, 1 << 8, 1 << 12}), 12u) << "one class for each bit";
  EXPECT_EQ(parts_of({0, 3000, 1}, {7, 3, 1000}), 4u) << "two gaps, before, after";
  EXPECT_EQ(parts_of({0, 1 << 20, 2}, {0, 1 << 19, 4}), 1u) << "every other value";
  EXPECT_EQ(parts_of({0, 10, 3}, {1, 10, 3}), 1u) << "never met";
  EXPECT_EQ(parts_of({4, 10, 3}, {4, 10, 3}), 0u) << "the same";
}

TEST(Box, DifferenceCanBeCountedBeforeItIsMade) {
  // 2^31 - 1 is a prime: no cover is short. Counting must not take long either.
  constexpr int64_t kPrime = (int64_t{1} << 31) - 1;
  const Box all = box_of({{0, kMax, 1}});
  const Box part = box_of({{0, int64_t{1} << 31, kPrime}});
  EXPECT_GE(subtract_count(all, part), static_cast<uint64_t>(kPrime) - 1);
  // 2^61 / 3 steps of three: one part for each of the other classes, at the end of int64.
  std::vector<Box> parts;
  subtract(all, box_of({{1, (kMax - 2) / 3, 3}}), &parts);
  int64_t total = 0;
  for (const Box& p : parts) total += p.size();
  EXPECT_EQ(total, kMax - (kMax - 2) / 3);
  EXPECT_LE(parts.size(), 4u);
}

TEST(Box, DifferenceKeepsRowsWhole) {
  const Box tensor = box_of({{0, 100, 1}, {0, 64, 1}});
  std::vector<Box> parts;
  subtract(tensor, box_of({{10, 20, 1}, {16, 16, 1}}), &parts);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0], box_of({{0, 10, 1}, {0, 64, 1}}));
  EXPECT_EQ(parts[1], box_of({{30, 70, 1}, {0, 64, 1}}));
  EXPECT_EQ(parts[2], box_of({{10, 20, 1}, {0, 16, 1}}));
  EXPECT_EQ(parts[3], box_of({{10, 20, 1}, {32, 32, 1}}));
}

TEST(Box, MakeRefusesWhatIsNotABox) {
  const auto code = [](std::vector<Progression> dims) { return Box::make(dims).status().code(); };
  EXPECT_EQ(code({{0, 0, 1}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{0, -1, 1}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{-1, 1, 1}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{0, 2, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{0, 2, -1}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{1, 2, kMax}}), Code::kInvalidArgument) << "the last value is 2^63";
  EXPECT_EQ(code({{0, 2, kMax}}), Code::kOk);
  EXPECT_EQ(code({{kMax, 1, 1}}), Code::kOk);
  EXPECT_EQ(code({{1, kMax, 1}}), Code::kOk);
  EXPECT_EQ(code({{2, kMax, 1}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{0, kMax, kMax}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{0, int64_t{1} << 32, 1}, {0, int64_t{1} << 31, 1}}), Code::kInvalidArgument)
      << "2^63 elements";
  EXPECT_EQ(code(std::vector<Progression>(kMaxRank, {0, 1, 1})), Code::kOk);
  EXPECT_EQ(code(std::vector<Progression>(kMaxRank + 1, {0, 1, 1})), Code::kInvalidArgument);
  EXPECT_FALSE(Box::whole(std::vector<int64_t>{3, 0}).ok());
}

TEST(Box, IsCanonical) {
  EXPECT_EQ(box_of({{5, 1, 77}}), box_of({{5, 1, 1}}));
  EXPECT_EQ(Box().rank(), 0);
  EXPECT_EQ(Box().size(), 1);
  EXPECT_TRUE(Box().contains(Box()));
  EXPECT_EQ(intersect(Box(), Box()), Box());
  std::vector<Box> parts;
  subtract(Box(), Box(), &parts);
  EXPECT_TRUE(parts.empty());
}

TEST(Box, OfOtherRankNeverMeets) {
  const Box line = box_of({{0, 4, 1}});
  EXPECT_FALSE(intersect(line, Box()).has_value());
  EXPECT_FALSE(line.contains(Box()));
  std::vector<Box> parts;
  subtract(line, Box(), &parts);
  EXPECT_EQ(parts, std::vector<Box>{line});
}

}  // namespace
}  // namespace wb
