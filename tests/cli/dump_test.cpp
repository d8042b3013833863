#include "cli/dump.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "base/output_file.h"

namespace wb::cli {
namespace {

namespace fs = std::filesystem;

class Dump : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "wb-dump-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    layout_.buffers.push_back({.name = "w", .dtype = DType::kU8, .shape = {4}, .bytes = 4});
  }
  void TearDown() override { fs::remove_all(folder_); }

  Status dump(const fs::path& path) {
    std::byte* const buffers[] = {bytes_};
    return dump_safetensors(path, layout_, buffers);
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static bool is_dump(const fs::path& path) {
    const std::string text = read(path);
    return text.size() > 12 && text.substr(text.size() - 4) == "\x01\x02\x03\x04";
  }
  static mode_t mode(const fs::path& path) {
    struct stat found = {};
    EXPECT_EQ(::lstat(path.c_str(), &found), 0);
    return found.st_mode;
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }
  // What is not a regular file is refused and left as it is, without a draft beside it.
  void expect_refused(const fs::path& path, const char* word) {
    const mode_t before = mode(path);
    const size_t count = files();
    for (const Status& status : {check_output(path), dump(path)}) {
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
      EXPECT_NE(status.message().find(word), std::string::npos) << status.to_string();
    }
    EXPECT_EQ(mode(path), before);
    EXPECT_EQ(files(), count);
  }

  fs::path folder_;
  WorkerLayout layout_;
  std::byte bytes_[4] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
};

TEST_F(Dump, ModeIsWhatTheUmaskLeaves) {
  const mode_t before = ::umask(0);
  for (const mode_t mask : {0u, 022u, 027u, 077u}) {
    ::umask(mask);
    const fs::path file = folder_ / ("dump-" + std::to_string(mask));
    const Status status = dump(file);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(mode(file), S_IFREG | (0666u & ~mask));
    EXPECT_TRUE(is_dump(file));
  }
  ::umask(before);
  EXPECT_EQ(files(), 4u);
}

TEST_F(Dump, ReplacesARegularFileAsAWhole) {
  const fs::path file = folder_ / "dump";
  std::ofstream(file) << std::string(4096, 'x');
  // A second name of the old file: it must not be written into.
  const fs::path other = folder_ / "other";
  fs::create_hard_link(file, other);
  EXPECT_TRUE(check_output(file).ok());
  const Status status = dump(file);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_TRUE(is_dump(file));
  EXPECT_EQ(read(other), std::string(4096, 'x'));
  EXPECT_EQ(files(), 2u);
}

TEST_F(Dump, RefusesALink) {
  std::ofstream(folder_ / "file") << "kept";
  for (const char* target : {"file", "nothing", "."}) {
    SCOPED_TRACE(target);
    const fs::path link = folder_ / "link";
    ASSERT_EQ(::symlink(target, link.c_str()), 0);
    expect_refused(link, "symbolic link");
    EXPECT_EQ(fs::read_symlink(link), target);
    fs::remove(link);
  }
  EXPECT_EQ(read(folder_ / "file"), "kept");
}

TEST_F(Dump, RefusesAFolder) {
  fs::create_directory(folder_ / "folder");
  expect_refused(folder_ / "folder", "folder");
}

TEST_F(Dump, RefusesAFifo) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  expect_refused(folder_ / "fifo", "FIFO");
}

TEST_F(Dump, RefusesASocket) {
  const std::string path = (folder_ / "socket").string();
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  expect_refused(path, "socket");
  ::close(fd);
}

// Only looked at, as a dump that is not refused would replace the system's own device.
TEST_F(Dump, RefusesADevice) {
  EXPECT_EQ(check_output("/dev/null").code(), Code::kInvalidArgument);
  const fs::path device = folder_ / "device";
  if (::mknod(device.c_str(), S_IFCHR | 0600, ::makedev(1, 3)) != 0) {
    GTEST_SKIP() << "this user may not make a device of its own to dump to";
  }
  expect_refused(device, "device");
}

TEST_F(Dump, AFolderThatIsNotThere) {
  EXPECT_TRUE(check_output(folder_ / "nowhere" / "dump").ok());
  EXPECT_EQ(dump(folder_ / "nowhere" / "dump").code(), Code::kNotFound);
}

}  // namespace
}  // namespace wb::cli
