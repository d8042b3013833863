#include "control/wire.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace wb::wire {
namespace {

// Bit by bit, from the definition in RFC 4648.
std::string slow_base64(const std::string& bytes) {
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bits;
  for (const char c : bytes) {
    for (int b = 7; b >= 0; --b) bits.push_back(((c >> b) & 1) != 0 ? '1' : '0');
  }
  while (bits.size() % 6 != 0) bits.push_back('0');
  std::string out;
  for (size_t i = 0; i < bits.size(); i += 6) {
    out.push_back(alphabet[static_cast<size_t>(std::stoi(bits.substr(i, 6), nullptr, 2))]);
  }
  while (out.size() % 4 != 0) out.push_back('=');
  return out;
}

TEST(Base64, IsTheDefinitionAndComesBack) {
  EXPECT_TRUE(rc::check("base64", [](const std::string& bytes) {
    const std::string text = base64_encode(bytes);
    RC_ASSERT(text == slow_base64(bytes));
    const auto back = base64_decode(text);
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == bytes);
  }));
}

TEST(Base64, AnyTextIsRefusedOrCanonical) {
  EXPECT_TRUE(rc::check("decode", [] {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ABCDwxyz01+/==- ")));
    const auto bytes = base64_decode(text);
    if (bytes) RC_ASSERT(base64_encode(*bytes) == text);
  }));
}

TEST(Base64, RefusesWhatIsNot) {
  for (const char* text : {"A", "AA", "AAA", "A===", "====", "AA=A",
                           "AAAA====", "AB==", "AAB=", "AA==AAAA", "AA A", "AAA-"}) {
    EXPECT_FALSE(base64_decode(text).has_value()) << text;
  }
  EXPECT_EQ(base64_decode(""), "");
}

TEST(Fields, NumbersInEverySpelling) {
  const auto number = [](const char* text) {
    return get_int(Json::parse(std::string("{\"n\":") + text + "}"), "n");
  };
  EXPECT_EQ(*number("\"9223372036854775807\""), INT64_MAX);
  EXPECT_EQ(*number("\"-5\""), -5);
  EXPECT_EQ(*number("7"), 7);
  EXPECT_EQ(*number("null"), 0);
  EXPECT_EQ(*get_int(Json::object(), "n"), 0);
  for (const char* bad : {"\"9223372036854775808\"", "9223372036854775808", "1.5", "\"\"", "\"1x\"",
                          "\" 1\"", "true", "[]", "{}", "\"0x10\""}) {
    EXPECT_EQ(number(bad).status().code(), Code::kBadData) << bad;
  }
}

TEST(Fields, OtherTypesAreRefused) {
  const Json object = Json::parse(R"({"a":5,"b":"x","c":[],"d":{}})");
  EXPECT_FALSE(get_bool(object, "a").ok());
  EXPECT_FALSE(get_text(object, "a").ok());
  EXPECT_FALSE(get_bytes(object, "b").ok());
  EXPECT_FALSE(get_array(object, "d").ok());
  EXPECT_FALSE(get_object(object, "c").ok());
  EXPECT_EQ(*get_array(object, "none"), nullptr);
}

std::string nested(size_t arrays) {
  return "{\"a\":" + std::string(arrays, '[') + std::string(arrays, ']') + "}";
}

TEST(Json, NestingIsBounded) {
  EXPECT_TRUE(parse_object(nested(kMaxDepth - 1)).ok());
  EXPECT_EQ(parse_object(nested(kMaxDepth)).status().code(), Code::kBadData);
  EXPECT_EQ(parse_object(nested(1'000'000)).status().code(), Code::kBadData);
  EXPECT_EQ(parse_object("{\"a\":" + std::string(1'000'000, '[')).status().code(), Code::kBadData);
  std::string objects;
  for (size_t i = 0; i <= kMaxDepth; ++i) objects += "{\"a\":";
  EXPECT_EQ(parse_object(objects + "1" + std::string(kMaxDepth + 1, '}')).status().code(),
            Code::kBadData);
}

TEST(Json, BracketsBesideEachOtherOrInStringsAreNoNesting) {
  std::string many = "{\"a\":[[]";
  for (size_t i = 0; i < 10 * kMaxDepth; ++i) many += ",[{}]";
  EXPECT_TRUE(parse_object(many + "]}").ok());
  EXPECT_TRUE(parse_object("{\"a\":\"\\\"" + std::string(1000, '[') + "\"}").ok());
  // A quote behind an escaped backslash ends the string.
  EXPECT_FALSE(
      parse_object("{\"a\":\"\\\\\",\"b\":" + std::string(200, '[') + std::string(200, ']') + "}")
          .ok());
}

TEST(PrefixRange, HoldsExactlyTheKeysWithThePrefix) {
  EXPECT_TRUE(rc::check("prefix", [] {
    const auto byte =
        rc::gen::elementOf(std::string("\x00\x01"
                                       "az\xfe\xff",
                                       6));
    const auto prefix = *rc::gen::container<std::string>(byte);
    auto key = *rc::gen::container<std::string>(byte);
    if (*rc::gen::arbitrary<bool>()) key = prefix + key;
    RC_PRE(!key.empty());
    const KeyRange range = prefix_range(prefix);
    const bool inside =
        key >= range.begin && (range.end == std::string(1, '\0') || key < range.end);
    RC_ASSERT(inside == (key.compare(0, prefix.size(), prefix) == 0));
  }));
}

}  // namespace
}  // namespace wb::wire
