#include "layout/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace wb {
namespace {

std::string file_of(const std::string& json, size_t data_bytes) {
  const uint64_t length = json.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + json + std::string(data_bytes, 'x');
}

Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors_header(std::as_bytes(std::span(file)), file.size());
}

Code code_of(const std::string& json, size_t data_bytes) {
  return parse(file_of(json, data_bytes)).status().code();
}

// One tensor "a" with the given text after its name.
std::string one(const std::string& fields) { return "{\"a\":{" + fields + "}}"; }

const std::string kEight = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";

TEST(Safetensors, GivesTensorsInTheOrderOfTheirData) {
  const std::string file = file_of(R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                                   R"("z":{"dtype":"U8","shape":[0,7],"data_offsets":[4,4]},)"
                                   R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                   R"("__metadata__":{"format":"pt"}}   )",
                                   16);
  const auto header = parse(file);
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  ASSERT_EQ(header->tensors.size(), 3u);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[1].name, "z");
  EXPECT_EQ(header->tensors[2].name, "b");
  EXPECT_EQ(header->tensors[2].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header->places[2].offset, file.size() - 12);
  EXPECT_EQ(header->places[2].bytes, 12u);
  EXPECT_EQ(header->places[1].bytes, 0u);
}

// Each verdict was compared with the reference implementation (safetensors 0.8.0).
TEST(Safetensors, TakesWhatTheReferenceTakes) {
  EXPECT_EQ(code_of("{}", 0), Code::kOk);
  EXPECT_EQ(code_of("{}\n\t ", 0), Code::kOk);
  EXPECT_EQ(code_of(one(kEight), 8), Code::kOk);
  EXPECT_EQ(code_of(one(kEight + R"(,"x":[[1,{"y":null}]])"), 8), Code::kOk);
  EXPECT_EQ(code_of("{\"__metadata__\":null,\"a\":{" + kEight + "}}", 8), Code::kOk);
  EXPECT_EQ(code_of(R"({"":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), Code::kOk);
  EXPECT_EQ(code_of(one(R"("dtype":"F4","shape":[2,3],"data_offsets":[0,3])"), 3), Code::kOk);
  const std::string shape = R"("dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0])";
  EXPECT_EQ(code_of(one(shape), 0), Code::kOk);
  const std::string deep(125, '[');
  EXPECT_EQ(code_of(one(kEight + ",\"x\":" + deep + std::string(125, ']')), 8), Code::kOk);
}

TEST(Safetensors, RefusesWhatIsNotJson) {
  for (const std::string json :
       {"", "[]", "{", "{}}", "{}{}", "{}//", "\xEF\xBB\xBF{}", " {}", "null", "{\"a\":}",
        "{'a':1}", "{\"a\tb\":1}", "{\"\\ud800\":{}}", "{\"\xff\":{}}"}) {
    EXPECT_EQ(code_of(json, 0), Code::kBadData) << json;
  }
  EXPECT_EQ(code_of(std::string("{}\0", 3), 0), Code::kBadData);
  EXPECT_EQ(code_of(one(kEight + ",\"x\":1e999"), 8), Code::kBadData);
  EXPECT_EQ(code_of(one(kEight + ",\"x\":" + std::string(1'000'000, '[')), 8), Code::kBadData);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(code_of(objects, 8), Code::kBadData);
}

TEST(Safetensors, RefusesWhatLies) {
  const auto refused = [](const std::string& fields, size_t data_bytes) {
    const auto header = parse(file_of(one(fields), data_bytes));
    EXPECT_EQ(header.status().code(), Code::kBadData) << fields;
    EXPECT_EQ(header.status().facts().tensor, "a") << fields;
  };
  refused(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4);
  refused(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])", 12);
  refused(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", 8);
  refused(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])", 8);
  refused(R"("dtype":"F32","shape":[2],"data_offsets":[0])", 8);
  refused(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])", 8);
  refused(R"("dtype":"F32","shape":[2e0],"data_offsets":[0,8])", 8);
  refused(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])", 8);
  refused(R"("dtype":"F32","shape":[-0],"data_offsets":[0,0])", 0);
  refused(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])", 8);
  refused(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])", 8);
  refused(R"("dtype":"F32","shape":2,"data_offsets":[0,8])", 8);
  refused(R"("dtype":"F32","shape":null,"data_offsets":[0,8])", 8);
  refused(R"("dtype":7,"shape":[2],"data_offsets":[0,8])", 8);
  refused(R"("shape":[2],"data_offsets":[0,8])", 8);
  refused(R"("dtype":"F32","data_offsets":[0,4])", 4);
  refused(R"("dtype":"F32","shape":[2])", 8);
  refused(kEight + R"(,"dtype":"F32")", 8);
  refused(kEight + R"(,"shape":[2])", 8);
  refused(R"("dtype":"F4","shape":[1],"data_offsets":[0,1])", 1);
  refused(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])", 8);
  refused(R"("dtype":"F32","shape":[9223372036854775807,4,0],"data_offsets":[0,0])", 0);
  refused(R"("dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,0])", 0);
  EXPECT_EQ(code_of(one(kEight), 9), Code::kBadData) << "data behind the last tensor";
  EXPECT_EQ(code_of(one(kEight), 7), Code::kBadData) << "truncated data";
  EXPECT_EQ(code_of("{\"a\":{" + kEight + "},\"a\":{" + kEight + "}}", 8), Code::kBadData);
  EXPECT_EQ(code_of("{\"a\":{" + kEight + "},\"b\":{" + kEight + "}}", 8), Code::kBadData);
  EXPECT_EQ(code_of(R"({"a":["F32",[2],[0,8]]})", 8), Code::kBadData);
  EXPECT_EQ(code_of(R"({"__metadata__":{"a":1}})", 0), Code::kBadData);
  EXPECT_EQ(code_of(R"({"__metadata__":{"a":{}}})", 0), Code::kBadData);
  EXPECT_EQ(code_of(R"({"__metadata__":[]})", 0), Code::kBadData);
  EXPECT_EQ(code_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0), Code::kBadData);
  EXPECT_EQ(code_of(R"({"__metadata__":{},"__metadata__":{}})", 0), Code::kBadData);
}

TEST(Safetensors, SaysWhatItCannotExpress) {
  EXPECT_EQ(code_of(one(R"("dtype":"F128","shape":[1],"data_offsets":[0,16])"), 16),
            Code::kUnsupported);
  EXPECT_EQ(code_of(one(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])"), 8),
            Code::kUnsupported);
}

TEST(Safetensors, RefusesLyingLengths) {
  std::string file = file_of(one(kEight), 8);
  EXPECT_EQ(parse(file.substr(0, 7)).status().code(), Code::kBadData);
  EXPECT_EQ(parse(file.substr(0, 20)).status().code(), Code::kBadData);
  for (const uint64_t length : {uint64_t{100'000'001}, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::memcpy(file.data(), &length, 8);
    EXPECT_EQ(parse(file).status().code(), Code::kBadData) << length;
  }
}

TEST(Safetensors, APrefixWithTheHeaderIsEnough) {
  const std::string json =
      one(R"("dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776])");
  const std::string file = file_of(json, 0);
  const auto header =
      parse_safetensors_header(std::as_bytes(std::span(file)), file.size() + (uint64_t{1} << 40));
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  const auto half = std::as_bytes(std::span(file)).first(file.size() / 2);
  EXPECT_FALSE(parse_safetensors_header(half, file.size() + (uint64_t{1} << 40)).ok());
}

TEST(Safetensors, WritesWhatItReads) {
  const std::vector<TensorInfo> tensors = {{"b \"q\" \xc3\xa9\n", DType::kBF16, {3, 5}},
                                           {"a", DType::kF6E2M3, {2, 8}},
                                           {"empty", DType::kF64, {0}},
                                           {"scalar", DType::kI64, {}}};
  const std::string text = make_safetensors_header(tensors);
  EXPECT_EQ(text.size() % 8, 0u);
  const auto header =
      parse_safetensors_header(std::as_bytes(std::span(text)), text.size() + 30 + 12 + 0 + 8);
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(header->tensors[i].name, tensors[i].name);
    EXPECT_EQ(header->tensors[i].dtype, tensors[i].dtype);
    EXPECT_EQ(header->tensors[i].shape, tensors[i].shape);
    EXPECT_EQ(header->places[i].bytes, tensors[i].bytes());
  }
  EXPECT_EQ(header->places[0].offset, text.size());
}

// The same changes at each run: bytes flipped, cut, repeated and swapped for words that matter.
TEST(Safetensors, SurvivesMutations) {
  std::vector<std::string> seeds = {
      file_of("{}", 0), file_of(one(kEight), 8),
      file_of(one(kEight + R"(,"x":[[1,{"y":null}]])"), 8),
      file_of(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],)"
              R"("data_offsets":[4,16]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}  )",
              16)};
  const std::vector<std::string> words = {"0",
                                          "-1",
                                          "18446744073709551615",
                                          "18446744073709551616",
                                          "1e9",
                                          "null",
                                          "[",
                                          "]",
                                          "{",
                                          "}",
                                          "\"",
                                          "\\u0000",
                                          "\"a\":",
                                          "\"dtype\":\"F4\"",
                                          "\"__metadata__\"",
                                          ",",
                                          std::string(1, '\0'),
                                          "\xff",
                                          std::string(200, '[')};
  std::mt19937_64 random(7);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 20'000; ++round) {
    std::string file = seeds[below(seeds.size())];
    for (size_t edits = below(4) + 1; edits > 0 && !file.empty(); --edits) {
      const size_t at = below(file.size());
      switch (below(5)) {
        case 0:
          file[at] = static_cast<char>(random());
          break;
        case 1:
          file.erase(at, below(16));
          break;
        case 2:
          file.insert(at, words[below(words.size())]);
          break;
        case 3:
          file.replace(at, below(8), words[below(words.size())]);
          break;
        default:
          file.insert(at, file.substr(below(file.size()), below(40)));
      }
    }
    // Else most edits would die on the length word.
    if (file.size() >= 8 && below(4) != 0) {
      const uint64_t length = std::min<uint64_t>(file.size() - 8, file.find_last_of('}') - 7);
      std::memcpy(file.data(), &length, 8);
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  }
}

}  // namespace
}  // namespace wb
