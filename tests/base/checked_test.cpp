#include "base/checked.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/byte_reader.h"

namespace wb {
namespace {

TEST(Checked, ReportsOverflowAtBothEnds) {
  constexpr auto kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(checked_add<int64_t>(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add<int64_t>(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_mul<int64_t>(kMax / 2 + 1, 2), std::nullopt);
  EXPECT_EQ(checked_mul<uint64_t>(1ull << 32, 1ull << 31), 1ull << 63);
  EXPECT_EQ(checked_cast<uint32_t>(int64_t{-1}), std::nullopt);
  EXPECT_EQ(checked_cast<uint8_t>(255), uint8_t{255});
}

TEST(Checked, RangeInsideDoesNotWrap) {
  EXPECT_TRUE(range_inside(0, 0, 0));
  EXPECT_TRUE(range_inside(4, 6, 10));
  EXPECT_FALSE(range_inside(4, 7, 10));
  EXPECT_FALSE(range_inside(11, 0, 10));
  EXPECT_FALSE(range_inside(std::numeric_limits<uint64_t>::max(), 2, 10));
  EXPECT_FALSE(range_inside(2, std::numeric_limits<uint64_t>::max(), 10));
}

TEST(ByteReader, StopsAtTheEnd) {
  const std::byte bytes[6] = {std::byte{1}, std::byte{2}, std::byte{0},
                              std::byte{0}, std::byte{9}, std::byte{8}};
  ByteReader reader(bytes);
  EXPECT_EQ(*reader.read<uint32_t>(), 0x0201u);
  EXPECT_EQ(reader.read<uint32_t>().status().code(), Code::kBadData);
  EXPECT_EQ(reader.remaining(), 2u) << "a failed read consumes nothing";
  EXPECT_FALSE(reader.take(3).ok());
  EXPECT_FALSE(reader.take(std::numeric_limits<uint64_t>::max()).ok());
  EXPECT_EQ(reader.take(2)->size(), 2u);
  EXPECT_EQ(reader.remaining(), 0u);
}

}  // namespace
}  // namespace wb
