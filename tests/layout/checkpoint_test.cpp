// open_checkpoint on folders made here.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "layout/model_config.h"
#include "layout/safetensors.h"

namespace wb {
namespace {

namespace fs = std::filesystem;

class CheckpointFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "wb-checkpoint-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  void write_tensors(const std::string& name, const std::vector<TensorInfo>& tensors) {
    std::string bytes = make_safetensors_header(tensors);
    for (const TensorInfo& tensor : tensors) bytes.append(tensor.bytes(), 'x');
    write(name, bytes);
  }
  void write_index(const std::string& map) {
    write("model.safetensors.index.json",
          R"({"metadata":{"total_size":1},"weight_map":)" + map + "}");
  }
  void expect(Code code, const std::string& word) {
    const Status status = open_checkpoint(folder_).status();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  }

  fs::path folder_;
  const TensorInfo a_{"a", DType::kBF16, {2, 3}};
  const TensorInfo b_{"b", DType::kF32, {4}};
  const TensorInfo c_{"c", DType::kU8, {5}};
};

TEST_F(CheckpointFolder, OneFile) {
  write_tensors("model.safetensors", {c_, a_});
  const auto by_folder = open_checkpoint(folder_);
  const auto by_file = open_checkpoint(folder_ / "model.safetensors");
  ASSERT_TRUE(by_folder.ok()) << by_folder.status().to_string();
  ASSERT_TRUE(by_file.ok()) << by_file.status().to_string();
  EXPECT_EQ(by_folder->table.digest(), by_file->table.digest());
  EXPECT_EQ(by_folder->table[0].name, "a");
  EXPECT_EQ(by_folder->places[0].offset, by_folder->places[1].offset + 5);
  EXPECT_EQ(by_folder->places[0].bytes, 12u);
}

TEST_F(CheckpointFolder, ShardsBehindLinks) {
  write_tensors("blob", {c_, a_});
  write_tensors("y.safetensors", {b_});
  fs::create_symlink("blob", folder_ / "x.safetensors");
  write_index(R"({"a":"x.safetensors","b":"y.safetensors","c":"x.safetensors"})");
  const auto checkpoint = open_checkpoint(folder_);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().to_string();
  ASSERT_EQ(checkpoint->table.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    const fs::path file = checkpoint->files[checkpoint->places[i].file];
    EXPECT_EQ(file.filename(), i == 1 ? "y.safetensors" : "x.safetensors");
    EXPECT_EQ(checkpoint->places[i].bytes, checkpoint->table[i].bytes());
  }
}

TEST_F(CheckpointFolder, IndexAndFilesMustAgree) {
  write_tensors("x", {a_, b_});
  write_tensors("y", {c_});
  write_index(R"({"a":"x","c":"y"})");
  expect(Code::kBadData, "not in the index");
  write_index(R"({"a":"x","b":"y","c":"y"})");
  expect(Code::kBadData, "the index says 'y'");
  write_index(R"({"a":"x","b":"x","c":"y","d":"y"})");
  expect(Code::kBadData, "'d' is not in 'y'");
  write_index(R"({"a":"x","b":"x","c":"z"})");
  expect(Code::kNotFound, "z");
  write_tensors("y", {c_, a_});
  write_index(R"({"a":"x","b":"x","c":"y"})");
  expect(Code::kBadData, "'a' is in ");
}

TEST_F(CheckpointFolder, NoFileOutsideTheFolderIsNamed) {
  write_tensors("x", {a_});
  for (const char* name : {"/etc/passwd", "../x", "..", ".", "", "sub/x", "x/", "x\\u0000y"}) {
    write_index(R"({"a":")" + std::string(name) + "\"}");
    expect(Code::kBadData, "not a file name");
  }
}

TEST_F(CheckpointFolder, RefusesWhatIsNotAnIndex) {
  for (const char* map : {"[]", "null", "{\"a\":1}", "{\"a\":{}}", R"({"a":"x","a":"x"})", "{"}) {
    write_index(map);
    expect(Code::kBadData, "index.json");
  }
  write("model.safetensors.index.json", "{}");
  expect(Code::kBadData, "no weight_map");
  write("model.safetensors.index.json", R"({"weight_map":{},"weight_map":{}})");
  expect(Code::kBadData, "twice");
}

TEST_F(CheckpointFolder, RefusesWhatIsNotACheckpoint) {
  expect(Code::kNotFound, "neither");
  EXPECT_EQ(open_checkpoint(folder_ / "none").status().code(), Code::kNotFound);
  write("model.safetensors", "1234567");
  expect(Code::kBadData, "truncated");
  write("model.safetensors", std::string(16, '\xff'));
  expect(Code::kBadData, "header of");
  write("model.safetensors", "");
  expect(Code::kBadData, "truncated");
  fs::remove(folder_ / "model.safetensors");
  ASSERT_EQ(::mkfifo((folder_ / "model.safetensors").c_str(), 0600), 0);
  expect(Code::kInvalidArgument, "not a regular file");
}

// A table's own refusals are the file's fault here.
TEST_F(CheckpointFolder, TensorsThatTheTableRefuses) {
  write_tensors("model.safetensors", {{"", DType::kU8, {1}}});
  expect(Code::kBadData, "without a name");
  const std::string json = R"({"a":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}} )";
  std::string file(8, '\0');
  file[0] = static_cast<char>(json.size());
  write("model.safetensors", file + json + "xxx");
  expect(Code::kUnsupported, "do not start on a byte");
}

TEST_F(CheckpointFolder, Configuration) {
  EXPECT_EQ(read_model_config(folder_).status().code(), Code::kNotFound);
  write("config.json", R"({"model_type":"bert"})");
  EXPECT_TRUE(read_model_config(folder_).ok());
  write("config.json", std::string((1 << 20) + 1, ' '));
  EXPECT_EQ(read_model_config(folder_).status().code(), Code::kBadData);
}

}  // namespace
}  // namespace wb
