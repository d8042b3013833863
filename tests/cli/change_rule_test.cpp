#include "cli/change_rule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <map>
#include <vector>

namespace wb::cli {
namespace {

using Bytes = std::vector<std::byte>;

Bytes changed(const Bytes& from, const char* tensor, uint64_t version, uint64_t first,
              uint32_t width) {
  Bytes out(from.size());
  ChangeRule(tensor, version).apply(out.data(), from.data(), first, from.size() / width, width);
  return out;
}

const std::vector<uint32_t> kWidths = {1, 2, 3, 4, 8};

RC_GTEST_PROP(ChangeRule, EveryElementDiffersBetweenNearVersions, ()) {
  const uint32_t width = *rc::gen::elementOf(kWidths);
  const auto version = *rc::gen::inRange<uint64_t>(0, 1000);
  const auto step = *rc::gen::inRange<uint64_t>(1, 200);  // less than 2^8, the narrowest element's
  const auto first = *rc::gen::arbitrary<uint64_t>() >> 8;
  const Bytes zero(257 * width);
  const Bytes a = changed(zero, "t", version, first, width);
  const Bytes b = changed(zero, "t", version + step, first, width);
  for (size_t i = 0; i < a.size(); i += width) {
    RC_ASSERT(std::memcmp(&a[i], &b[i], width) != 0);
  }
}

RC_GTEST_PROP(ChangeRule, APartIsThatPartOfTheWhole, ()) {
  const uint32_t width = *rc::gen::elementOf(kWidths);
  const auto bits =
      *rc::gen::container<std::vector<uint8_t>>(200 * width, rc::gen::arbitrary<uint8_t>());
  Bytes from(bits.size());
  std::memcpy(from.data(), bits.data(), bits.size());
  // Also across the place where the low word of the index wraps.
  const uint64_t first =
      (uint64_t{*rc::gen::inRange<uint32_t>(0, 3)} << 32) - 100 + (uint64_t{1} << 32);
  const Bytes whole = changed(from, "tensor", 7, first, width);
  const auto cut = *rc::gen::inRange<size_t>(0, 200);
  const Bytes tail(from.begin() + static_cast<long>(cut * width), from.end());
  const Bytes part = changed(tail, "tensor", 7, first + cut, width);
  RC_ASSERT(std::memcmp(part.data(), whole.data() + cut * width, part.size()) == 0);
}

TEST(ChangeRule, DependsOnTheTensorAndThePlace) {
  const Bytes zero(4 * 4096);
  const Bytes a = changed(zero, "a", 1, 0, 4);
  EXPECT_NE(a, changed(zero, "b", 1, 0, 4));
  EXPECT_NE(a, changed(zero, "a", 1, 1, 4));
  EXPECT_NE(a, changed(zero, "a", 1, uint64_t{1} << 32, 4));
  std::map<uint32_t, int> seen;
  for (size_t i = 0; i < a.size(); i += 4) {
    uint32_t word = 0;
    std::memcpy(&word, &a[i], 4);
    ++seen[word];
  }
  EXPECT_GT(seen.size(), 4090u);  // a chance collision is allowed, a pattern is not
}

TEST(ChangeRule, TwiceTheSameKeyGivesTheValueBack) {
  Bytes from(1024);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7);
  for (const uint32_t width : {1u, 2u, 4u, 8u}) {
    EXPECT_EQ(changed(changed(from, "t", 3, 5, width), "t", 3, 5, width), from);
  }
}

}  // namespace
}  // namespace wb::cli
