#include "base/hash.h"

#include <gtest/gtest.h>

namespace wb {
namespace {

TEST(Digest, HexRoundTrip) {
  const Digest id = random_id();
  const auto back = Digest::from_hex(id.hex());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, id);
  EXPECT_NE(random_id(), id);
}

TEST(Digest, RefusesWhatIsNotHex) {
  EXPECT_FALSE(Digest::from_hex("").ok());
  EXPECT_FALSE(Digest::from_hex(std::string(31, '0')).ok());
  EXPECT_FALSE(Digest::from_hex(std::string(32, 'G')).ok());
  EXPECT_FALSE(Digest::from_hex(std::string(32, 'A')).ok());
  EXPECT_TRUE(Digest::from_hex(std::string(32, 'a')).ok());
}

TEST(Hasher, FieldsDoNotRunTogether) {
  const auto of = [](std::string_view a, std::string_view b) {
    Hasher hasher;
    hasher.add(a).add(b);
    return hasher.digest();
  };
  EXPECT_NE(of("ab", "c"), of("a", "bc"));
  EXPECT_NE(of("", "x"), of("x", ""));
  EXPECT_EQ(of("ab", "c"), of("ab", "c"));
}

}  // namespace
}  // namespace wb
