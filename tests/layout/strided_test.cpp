// The exact questions about byte sets, against enumeration.
#include "layout/strided.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>

#include "layout/disjoint.h"
#include "many.h"

namespace wb {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 40;

// How often each byte of a piece is addressed, by walking all its index vectors.
std::map<int64_t, int> walk(const Piece& piece, int64_t unit) {
  std::vector<int64_t> at = {piece.offset};
  for (int d = 0; d < piece.box.rank(); ++d) {
    std::vector<int64_t> next;
    for (const int64_t a : at) {
      for (int64_t i = 0; i < piece.box.dim(d).count; ++i) {
        next.push_back(a + i * piece.stride[static_cast<size_t>(d)]);
      }
    }
    at = std::move(next);
  }
  std::map<int64_t, int> bytes;
  for (const int64_t a : at) {
    for (int64_t b = 0; b < unit; ++b) ++bytes[a + b];
  }
  return bytes;
}

struct Sample {
  Piece piece;
  int64_t unit;
  StridedBytes set;
};

// Any strides, also negative, equal and folding; no zero stride with more than one index.
rc::Gen<Sample> any_sample(int64_t max_stride, int max_rank) {
  return rc::gen::exec([max_stride, max_rank] {
    Sample sample;
    sample.unit = *rc::gen::inRange<int64_t>(1, 5);
    std::vector<Progression> dims;
    int64_t lowest = 0;
    const int rank = *rc::gen::inRange(0, max_rank + 1);
    for (int d = 0; d < rank; ++d) {
      const auto count = *rc::gen::inRange<int64_t>(1, 6);
      auto stride = *rc::gen::inRange<int64_t>(1, max_stride);
      if (*rc::gen::inRange(0, 4) == 0) stride = -stride;
      dims.push_back({0, count, 1});
      sample.piece.stride[static_cast<size_t>(d)] = stride;
      if (stride < 0) lowest += stride * (count - 1);
    }
    sample.piece.box = *Box::make(dims);
    sample.piece.offset = *rc::gen::inRange<int64_t>(0, 60) - lowest;
    const auto set = bytes_of_piece(sample.piece, sample.unit);
    RC_ASSERT(set.has_value());
    sample.set = *set;
    return sample;
  });
}

TEST(StridedBytes, BoundsAreThoseOfTheBytes) {
  EXPECT_TRUE(rc::check([] {
    const auto sample = *any_sample(40, 4);
    const auto bytes = walk(sample.piece, sample.unit);
    RC_ASSERT(sample.set.low == bytes.begin()->first);
    RC_ASSERT(sample.set.high() == bytes.rbegin()->first + 1);
  }));
}

TEST(StridedBytes, OverlapIsThatOfTheSets) {
  int met = 0, apart = 0;
  const auto property = [&](int64_t max_stride, int max_rank) {
    return many([&met, &apart, max_stride, max_rank] {
      const auto a = *any_sample(max_stride, max_rank);
      const auto b = *any_sample(max_stride, max_rank);
      const auto in_a = walk(a.piece, a.unit), in_b = walk(b.piece, b.unit);
      const bool expected = std::any_of(
          in_a.begin(), in_a.end(), [&](const auto& byte) { return in_b.count(byte.first) != 0; });
      int64_t budget = kPlenty;
      RC_ASSERT(overlap(a.set, b.set, &budget) == expected);
      RC_ASSERT(overlap(b.set, a.set, &budget) == expected);
      if (expected) {
        const int64_t byte = common_byte(a.set, b.set, &budget);
        RC_ASSERT(in_a.count(byte) == 1u);
        RC_ASSERT(in_b.count(byte) == 1u);
      }
      // Of what the bounding intervals cannot tell.
      if (a.set.low < b.set.high() && b.set.low < a.set.high()) ++(expected ? met : apart);
    });
  };
  EXPECT_TRUE(rc::check("two levels", property(40, 2)));
  EXPECT_TRUE(rc::check("sparse", property(400, 2)));
  EXPECT_TRUE(rc::check("deep", property(200, 4)));
  EXPECT_GT(met, 50);
  EXPECT_GT(apart, 50);
}

TEST(StridedBytes, FoldingIsThatOfTheIndexVectors) {
  int folded = 0, flat = 0;
  EXPECT_TRUE(rc::check(many([&] {
    const auto sample = *any_sample(60, 3);
    const auto bytes = walk(sample.piece, sample.unit);
    const bool expected =
        std::any_of(bytes.begin(), bytes.end(), [](const auto& byte) { return byte.second > 1; });
    int64_t budget = kPlenty;
    RC_ASSERT(folds_over_itself(sample.set, &budget) == expected);
    if (expected) RC_ASSERT(bytes.at(folded_byte(sample.set, &budget)) > 1);
    ++(expected ? folded : flat);
  })));
  EXPECT_GT(folded, 50);
  EXPECT_GT(flat, 50);
}

StridedBytes levels(int64_t low, int64_t run, std::vector<StridedBytes::Level> list) {
  StridedBytes set = run_of_bytes(low, run);
  for (const auto& level : list) set.level[static_cast<size_t>(set.levels++)] = level;
  return set;
}

// Sets far too large to walk; each has one byte where they can meet, or none by a residue.
TEST(StridedBytes, OverlapOfHugeSetsTakesFewSteps) {
  int64_t budget = 1000;
  const StridedBytes odd = levels(1, 1, {{2, int64_t{1} << 60}});
  const StridedBytes even = levels(0, 1, {{2, int64_t{1} << 60}});
  EXPECT_FALSE(overlap(odd, even, &budget));
  // Coprime periods that first meet at their product - 1.
  const int64_t p = 1'000'003, q = 998'244'353;
  const StridedBytes a = levels(p - 1, 1, {{p, q * 4}});
  const StridedBytes b = levels(q - 1, 1, {{q, p * 4}});
  EXPECT_TRUE(overlap(a, b, &budget));
  EXPECT_EQ(common_byte(a, b, &budget), p * q - 1);
  const StridedBytes before = levels(q - 1, 1, {{q, p - 2}});
  EXPECT_FALSE(overlap(a, before, &budget));
  // Columns of one row pitch, elements of alternate columns.
  const int64_t pitch = 16384;
  const StridedBytes left = levels(0, 2, {{pitch, 1 << 20}, {4, 4095}});
  const StridedBytes right = levels(2, 2, {{pitch, 1 << 20}, {4, 4095}});
  EXPECT_FALSE(overlap(left, right, &budget));
  EXPECT_TRUE(overlap(left, levels(pitch * 77 + 3, 2, {{pitch, 10}, {4, 7}}), &budget));
  EXPECT_GT(budget, 0);
}

TEST(StridedBytes, AddressesThatLeaveTheRangeAreNothing) {
  constexpr int64_t kFar = int64_t{1} << 61;
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const auto bytes = [](int64_t offset, std::vector<std::pair<int64_t, int64_t>> dims) {
    Piece piece;
    piece.offset = offset;
    std::vector<Progression> box;
    for (const auto& [count, stride] : dims) {
      piece.stride[box.size()] = stride;
      box.push_back({0, count, 1});
    }
    piece.box = *Box::make(box);
    return bytes_of_piece(piece, 4);
  };
  EXPECT_TRUE(bytes(0, {{2, kFar}}).has_value());
  EXPECT_FALSE(bytes(0, {{3, kFar}}).has_value());
  EXPECT_FALSE(bytes(0, {{2, -1}}).has_value());
  EXPECT_TRUE(bytes(1, {{2, -1}}).has_value());
  EXPECT_FALSE(bytes(-1, {}).has_value());
  EXPECT_FALSE(bytes(std::numeric_limits<int64_t>::max(), {{2, kMin}}).has_value());
  EXPECT_FALSE(bytes(std::numeric_limits<int64_t>::max(), {}).has_value());
  EXPECT_FALSE(bytes(0, {{int64_t{1} << 62, std::numeric_limits<int64_t>::max()}}).has_value());
  EXPECT_FALSE(bytes(kMin, {{2, kMin}}).has_value());
}

TEST(FindSharedByte, FindsExactlyWhatEnumerationFinds) {
  int found = 0, none = 0;
  EXPECT_TRUE(rc::check(many([&] {
    // A common period makes the splitting by periods matter.
    const auto period = *rc::gen::inRange<int64_t>(20, 90);
    const auto count = *rc::gen::inRange<size_t>(2, 14);
    std::vector<StridedBytes> sets;
    std::vector<std::map<int64_t, int>> bytes;
    for (size_t i = 0; i < count; ++i) {
      Piece piece;
      const auto rows = *rc::gen::inRange<int64_t>(1, 5);
      const auto columns = *rc::gen::inRange<int64_t>(1, 3);
      const auto pitch = *rc::gen::inRange(0, 8) == 0 ? period + 7 : period;
      piece.box = *Box::make(std::vector<Progression>{{0, rows, 1}, {0, columns, 1}});
      piece.stride = {pitch, *rc::gen::inRange<int64_t>(1, 9)};
      piece.offset = *rc::gen::inRange<int64_t>(0, 12 * period);
      const auto unit = *rc::gen::inRange<int64_t>(1, 4);
      sets.push_back(*bytes_of_piece(piece, unit));
      bytes.push_back(walk(piece, unit));
    }
    bool expected = false;
    for (size_t i = 0; i < count; ++i) {
      for (size_t j = 0; j < i; ++j) {
        for (const auto& byte : bytes[i]) expected = expected || bytes[j].count(byte.first) != 0;
      }
    }
    int64_t budget = kPlenty;
    const auto shared = find_shared_byte(sets, &budget);
    RC_ASSERT(shared.has_value() == expected);
    ++(expected ? found : none);
    if (!shared) return;
    RC_ASSERT(shared->first < shared->second);
    RC_ASSERT(bytes[shared->first].count(shared->byte) == 1u);
    RC_ASSERT(bytes[shared->second].count(shared->byte) == 1u);
  })));
  EXPECT_GT(found, 50);
  EXPECT_GT(none, 50);
}

// Work is counted, not timed: near-linear for sets that tile a buffer in any regular way.
TEST(FindSharedByte, TilesCostLittle) {
  constexpr int64_t kSets = 50'000;
  const auto budget_of = [](std::vector<StridedBytes> sets, bool shared) {
    int64_t budget = kPlenty;
    EXPECT_EQ(find_shared_byte(sets, &budget).has_value(), shared);
    return kPlenty - budget;
  };
  std::vector<StridedBytes> columns, tiles, bricks, interleaved;
  for (int64_t i = 0; i < kSets; ++i) {
    columns.push_back(levels(i * 128, 128, {{kSets * 128, 4095}}));
    const int64_t row = i / 250, column = i % 250;
    tiles.push_back(levels(row * 16 * 16000 + column * 64, 64, {{16000, 15}}));
    // As tiles, each column shifted down by another number of rows.
    bricks.push_back(levels((row * 16 + column % 16) * 16000 + column * 64, 64, {{16000, 15}}));
    // Expert i's rows of one matrix, at two nested periods.
    interleaved.push_back(levels(i * 8, 8, {{kSets * 16, 7}, {kSets * 8, 1}}));
  }
  EXPECT_LT(budget_of(columns, false), 20 * kSets);
  EXPECT_LT(budget_of(tiles, false), 20 * kSets);
  EXPECT_LT(budget_of(bricks, false), 200 * kSets);
  EXPECT_LT(budget_of(interleaved, false), 20 * kSets);
  for (auto* sets : {&columns, &tiles, &bricks}) {
    sets->push_back(run_of_bytes((*sets)[kSets / 2].low, 1));
    EXPECT_LT(budget_of(*sets, true), 200 * kSets);
  }
}

}  // namespace
}  // namespace wb
