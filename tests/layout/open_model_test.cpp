#include "layout/open_model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace wb {
namespace {

constexpr char kConfig[] = R"({"model_type":"llama","hidden_size":8,"num_attention_heads":2})";

std::string file(const std::string& tensors, const std::string& config = kConfig) {
  return R"({"config":)" + config + R"(,"tensors":)" + tensors + "}";
}

Status refused(const std::string& json) {
  auto model = parse_model_table(json);
  EXPECT_FALSE(model.ok()) << json;
  return model.status();
}

TEST(ModelTable, IsRead) {
  // The configuration may stand behind the tensors, and hold a member named like them.
  const auto model = parse_model_table(
      R"({"tensors":{"b":{"shape":[3,8],"dtype":"BF16"},"a":{"dtype":"F32","shape":[]}},
          "config":{"model_type":"llama","hidden_size":64,"tensors":{"x":1},"list":[1,1]}})");
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(model->config.hidden, 64);
  ASSERT_EQ(model->table.size(), 2u);
  EXPECT_EQ(model->table[0].name, "a");
  EXPECT_EQ(model->table[1].shape, (std::vector<int64_t>{3, 8}));
  EXPECT_EQ(model->table[1].dtype, DType::kBF16);
}

TEST(ModelTable, RefusesWhatIsNotOne) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[1]}})";
  EXPECT_TRUE(parse_model_table(file(good)).ok());
  for (const std::string& json : std::vector<std::string>{
           "",
           "[]",
           "{}",
           "{\"config\":{}}",
           "{\"tensors\":{}}",
           file(good) + "x",
           file(good, "[]"),
           file("[]"),
           file("7"),
           file(good, "{}"),
           file(good, R"({"model_type":"llama","hidden_size":-1})"),
           file(R"({"a":7})"),
           file(R"({"a":[1]})"),
           file(R"({"a":{"dtype":"F32"}})"),
           file(R"({"a":{"shape":[1]}})"),
           file(R"({"a":{"dtype":"F33","shape":[1]}})"),
           file(R"({"a":{"dtype":7,"shape":[1]}})"),
           file(R"({"a":{"dtype":"F32","shape":1}})"),
           file(R"({"a":{"dtype":"F32","shape":[-1]}})"),
           file(R"({"a":{"dtype":"F32","shape":[1.5]}})"),
           file(R"({"a":{"dtype":"F32","shape":[[1]]}})"),
           file(R"({"a":{"dtype":"F32","shape":[{"x":1}]}})"),
           file(R"({"a":{"dtype":"F32","shape":[18446744073709551615]}})"),
           file(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4611686018427387904]}})"),
           file(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1]}})"),
           file(R"({"a":{"dtype":"F32","shape":[1],"offset":0}})"),
           file(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1]}})"),
           file(R"({"a":{"dtype":"F32","shape":[1],"shape":[1]}})"),
           file(R"({"":{"dtype":"F32","shape":[1]}})"),
           file(R"({"a":{"dtype":"F32","shape":[1]},"a":{"dtype":"F32","shape":[1]}})"),
           R"({"config":{"model_type":"llama"},"tensors":{},"more":1})",
           R"({"config":{"model_type":"llama"},"config":{"model_type":"llama"},"tensors":{}})",
           R"({"config":{"model_type":"llama"},"tensors":{},"tensors":{}})",
           R"({"config":{"model_type":"llama","model_type":"qwen3"},"tensors":{}})",
           file(std::string(200, '['))}) {
    EXPECT_EQ(refused(json).code(), Code::kBadData) << json;
  }
}

TEST(ModelTable, NamesTheTensorAtFault) {
  const Status status = refused(file(R"({"w.7":{"dtype":"F32","shape":[-3]}})"));
  EXPECT_EQ(status.facts().tensor, "w.7");
  EXPECT_NE(status.message().find("'w.7'"), std::string::npos);
}

TEST(OpenModel, FromEachPlace) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "wb-open-model";
  fs::create_directories(folder);
  std::ofstream(folder / "m.json") << file(R"({"a":{"dtype":"F32","shape":[1]}})");
  std::ofstream(folder / "bad.json") << "{";
  EXPECT_TRUE(open_model((folder / "m.json").string()).ok());
  EXPECT_TRUE(open_model("qwen3-0.6b").ok());
  const Status bad = open_model((folder / "bad.json").string()).status();
  EXPECT_EQ(bad.code(), Code::kBadData);
  EXPECT_NE(bad.message().find("bad.json"), std::string::npos);
  EXPECT_EQ(open_model((folder / "none").string()).status().code(), Code::kNotFound);
  EXPECT_NE(open_model("qwen4").status().message().find("kimi-k2"), std::string::npos);
  EXPECT_EQ(open_model(folder.string()).status().code(), Code::kNotFound) << "no config.json";
  fs::remove_all(folder);
}

}  // namespace
}  // namespace wb
