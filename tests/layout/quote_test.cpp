#include "layout/quote.h"

#include <gtest/gtest.h>

#include <random>

namespace wb {
namespace {

TEST(Visible, KeepsWhatIsText) {
  for (const std::string text :
       {"model.layers.0.q_proj.weight", "größe", "重み", "\U0001F600", ""}) {
    EXPECT_EQ(visible(text), text);
  }
}

// Whatever can move the cursor, hide text or turn its direction on some terminal.
TEST(Visible, ReplacesWhatActsOnATerminal) {
  for (const std::string text :
       {"\x1b",   "\x07",   "\r",     "\n",     "\t",     "\x7f",   "\u0080", "\u009b",
        "\u009f", "\u061c", "\u200b", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a",
        "\u202e", "\u2060", "\u2066", "\u2069", "\ufeff", "\xff",   "\xc3"}) {
    EXPECT_EQ(visible("a" + text + "b"), "a?b");
  }
  EXPECT_EQ(visible("a\nb\r", true), "a\nb?");
  EXPECT_EQ(visible("\xe2\x82"), "??") << "a character that was cut off";
}

TEST(Visible, WhateverComesInUtf8GoesOut) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 12, '\0');
    for (char& c : text) c = static_cast<char>(random());
    const std::string seen = visible(text);
    ASSERT_TRUE(is_utf8(seen));
    ASSERT_EQ(visible(seen), seen);
    ASSERT_TRUE(is_utf8(quote(text)));
  }
}

TEST(Quote, CutsBetweenCharacters) {
  EXPECT_EQ(quote("a\x1b"), "'a?'");
  const std::string long_name(199, 'x');
  EXPECT_EQ(quote(long_name + "é"), "'" + long_name + "...'");
  EXPECT_EQ(quote(long_name + "y"), "'" + long_name + "y'");
}

}  // namespace
}  // namespace wb
