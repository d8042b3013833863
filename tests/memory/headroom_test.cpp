// The limits of machines that this one is not: files of /proc and /sys, made up.
#include "memory/headroom.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace wb {
namespace {

class Headrooms : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "headroom." + std::to_string(getpid());
    write("/proc/meminfo",
          "MemTotal: 9000 kB\nMemAvailable: 1000 kB\nHugePages_Free: 5\n"
          "HugePages_Rsvd: 2\nHugepagesize: 2048 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  Headroom headroom() { return memory_headroom(PageUse::kMemfd, root_); }
  std::string root_;
};

TEST_F(Headrooms, AvailableMemory) {
  EXPECT_EQ(headroom().bytes, 1000u * 1024);
  EXPECT_NE(headroom().limit.find("MemAvailable"), std::string::npos);
}

TEST_F(Headrooms, CgroupVersion2OfAnyLevel) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  write("/sys/fs/cgroup/a/b/memory.current", "100\n");
  EXPECT_EQ(headroom().bytes, 1000u * 1024);
  write("/sys/fs/cgroup/a/memory.max", "5000\n");
  write("/sys/fs/cgroup/a/memory.current", "3000\n");
  EXPECT_EQ(headroom().bytes, 2000u);
  EXPECT_NE(headroom().limit.find("/sys/fs/cgroup/a/"), std::string::npos);
  write("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 500\n");
  EXPECT_EQ(headroom().bytes, 2500u);
  write("/sys/fs/cgroup/a/memory.current", "9000\n");
  EXPECT_EQ(headroom().bytes, 0u);
}

TEST_F(Headrooms, CgroupVersion1InAContainer) {
  // The path is the host's; only the mount's own files exist.
  write("/proc/self/cgroup", "5:cpu:/x\n4:memory:/host/pod\n0::/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
  EXPECT_EQ(headroom().bytes, 6000u);
}

TEST_F(Headrooms, StrictOvercommit) {
  write("/proc/sys/vm/overcommit_memory", "2\n");
  write("/proc/meminfo", "MemAvailable: 1000 kB\nCommitLimit: 300 kB\nCommitted_AS: 100 kB\n");
  EXPECT_EQ(headroom().bytes, 200u * 1024);
}

TEST_F(Headrooms, NothingToldIsNoLimit) {
  EXPECT_EQ(memory_headroom(PageUse::kMemfd, root_ + "/none").bytes, UINT64_MAX);
  EXPECT_EQ(huge_pages_free(root_ + "/none").page_bytes, 0u);
}

TEST_F(Headrooms, GarbageIsNoLimit) {
  write("/proc/meminfo", "MemAvailable: lots\n\nMemAvailable\n");
  write("/proc/self/cgroup", "::\nnonsense\n0::\n99999999999999999999:memory\n");
  write("/sys/fs/cgroup/memory.max", "99999999999999999999999999\n");
  EXPECT_EQ(headroom().bytes, UINT64_MAX);
}

TEST_F(Headrooms, HugePages) {
  EXPECT_EQ(huge_pages_free(root_).page_bytes, 2u << 20);
  EXPECT_EQ(huge_pages_free(root_).free_bytes, 3u * (2u << 20));
}

}  // namespace
}  // namespace wb
