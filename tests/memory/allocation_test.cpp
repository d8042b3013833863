#include "memory/allocation.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>

#include "memory/headroom.h"
#include "memory/mapped.h"

namespace wb {
namespace {

bool all_zero(const Allocation& memory) {
  for (uint64_t i = 0; i < memory.bytes(); ++i) {
    if (memory.data()[i] != std::byte{0}) return false;
  }
  return true;
}

TEST(Allocation, HostIsZeroWritableAndNamedByItsId) {
  std::set<uint64_t> ids;
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, uint64_t{4097}, uint64_t{3} << 20}) {
    const auto memory = Allocation::host(bytes, {}).value();
    EXPECT_EQ(memory->kind(), MemoryKind::kHost);
    EXPECT_EQ(memory->bytes(), bytes);
    EXPECT_EQ(memory->fd(), -1);
    EXPECT_TRUE(all_zero(*memory));
    memory->data()[bytes - 1] = std::byte{1};
    EXPECT_TRUE(ids.insert(memory->id()).second);
  }
}

TEST(Allocation, SharedIsSealedAgainstEveryoneButItsOwner) {
  const auto memory = Allocation::shared(10000, {.name = "test"}).value();
  EXPECT_TRUE(all_zero(*memory));
  EXPECT_EQ(fcntl(memory->fd(), F_GET_SEALS),
            F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
  EXPECT_NE(fcntl(memory->fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(ftruncate(memory->fd(), 0), 0);
  EXPECT_NE(pwrite(memory->fd(), "x", 1, 0), 1);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd(), 0), MAP_FAILED);
  // Also not through another process's view of the descriptor.
  const std::string path = "/proc/self/fd/" + std::to_string(memory->fd());
  const int again = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(again, 0);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
  void* view = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, again, 0);
  ASSERT_NE(view, MAP_FAILED);
  memory->data()[7] = std::byte{9};
  EXPECT_EQ(static_cast<std::byte*>(view)[7], std::byte{9});
  munmap(view, 4096);
  close(again);
}

TEST(Allocation, WhatCannotFitIsRefusedBeforeAPageIsTouched) {
  for (const uint64_t bytes : {uint64_t{1} << 46, uint64_t{1} << 62, UINT64_MAX}) {
    const auto host = Allocation::host(bytes, {});
    ASSERT_FALSE(host.ok());
    EXPECT_EQ(host.status().code(), Code::kNoMemory) << host.status().to_string();
    EXPECT_EQ(Allocation::shared(bytes, {}).status().code(), Code::kNoMemory);
  }
  EXPECT_EQ(Allocation::host(0, {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Allocation::shared(0, {}).status().code(), Code::kInvalidArgument);
}

// In a child, since limits of a process are hard to take back.
int in_child(void (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

rlim_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    rlim_t kib = 0;
    if (word == "VmData:" && status >> kib) return kib * 1024;
  }
  return 0;
}

TEST(Allocation, TheProcessesOwnLimitsAreKnown) {
  EXPECT_EQ(in_child([] {
              const rlimit limit{1u << 20, 1u << 20};
              setrlimit(RLIMIT_FSIZE, &limit);
              EXPECT_EQ(Allocation::shared(2u << 20, {}).status().code(), Code::kNoMemory);
              EXPECT_TRUE(Allocation::host(2u << 20, {}).ok());
            }),
            0);
  EXPECT_EQ(in_child([] {
              // Room for a sanitizer's own memory.
              const rlim_t most = data_bytes() + (64u << 20);
              const rlimit limit{most, most};
              setrlimit(RLIMIT_DATA, &limit);
              const auto refused = Allocation::host(1u << 30, {});
              EXPECT_EQ(refused.status().code(), Code::kNoMemory);
              EXPECT_NE(refused.status().message().find("RLIMIT_DATA"), std::string::npos);
            }),
            0);
}

TEST(Allocation, HugePagesAreGivenOrRefusedButNeverReplaced) {
  const auto memory = Allocation::host(1, {.huge_pages = true});
  if (huge_pages_free().free_bytes == 0) {
    ASSERT_FALSE(memory.ok());
    EXPECT_TRUE(memory.status().code() == Code::kNoMemory ||
                memory.status().code() == Code::kUnsupported);
    EXPECT_FALSE(Allocation::shared(1, {.huge_pages = true}).ok());
  } else {
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    EXPECT_EQ((*memory)->bytes(), 1u);
  }
}

TEST(Allocation, CallersMemoryMustBeMapped) {
  std::vector<std::byte> buffer(10000);
  const auto memory = Allocation::caller(buffer.data(), buffer.size()).value();
  EXPECT_EQ(memory->data(), buffer.data());
  EXPECT_EQ(memory->kind(), MemoryKind::kCaller);
  const auto code = [](void* base, uint64_t bytes) {
    return Allocation::caller(base, bytes).status().code();
  };
  EXPECT_EQ(code(nullptr, 1), Code::kInvalidArgument);
  EXPECT_EQ(code(buffer.data(), 0), Code::kInvalidArgument);
  EXPECT_EQ(code(buffer.data(), UINT64_MAX), Code::kInvalidArgument);
  EXPECT_EQ(code(reinterpret_cast<void*>(UINT64_MAX - 10), 5), Code::kInvalidArgument);
  EXPECT_EQ(code(reinterpret_cast<void*>(16), 8), Code::kInvalidArgument);

  // A hole in the middle: found also when both ends are mapped.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* three = mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(three, MAP_FAILED);
  auto* base = static_cast<std::byte*>(three);
  EXPECT_TRUE(Allocation::caller(base, 3 * page).ok());
  ASSERT_EQ(mprotect(base + page, page, PROT_NONE), 0);
  EXPECT_EQ(code(base, 3 * page), Code::kInvalidArgument);
  ASSERT_EQ(mprotect(base + page, page, PROT_READ), 0);
  EXPECT_TRUE(Allocation::caller(base, 3 * page).ok());
  EXPECT_EQ(check_mapped(base, 3 * page, true).code(), Code::kInvalidArgument);
  ASSERT_EQ(munmap(base + page, page), 0);
  EXPECT_EQ(code(base, 3 * page), Code::kInvalidArgument);
  EXPECT_TRUE(Allocation::caller(base, page).ok());
  munmap(base, page);
  munmap(base + 2 * page, page);
}

// A driver that is loaded in the process is asked; see fake_cuda.cpp.
TEST(Allocation, DeviceMemoryIsRefusedWhenADriverIsLoaded) {
  std::vector<std::byte> buffer(4096);
  const char* path = std::getenv("WB_TEST_FAKE_CUDA");
  ASSERT_NE(path, nullptr);
  EXPECT_TRUE(Allocation::caller(buffer.data(), buffer.size()).ok());
  void* driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr) << dlerror();
  auto set = reinterpret_cast<void (*)(uint64_t, uint64_t, unsigned, unsigned)>(
      dlsym(driver, "fake_cuda_set"));
  ASSERT_NE(set, nullptr);
  const auto address = reinterpret_cast<uint64_t>(buffer.data());
  const auto code = [&buffer] {
    return Allocation::caller(buffer.data(), buffer.size()).status().code();
  };
  set(address, buffer.size(), 2, 0);  // device
  EXPECT_EQ(code(), Code::kUnsupported);
  set(address, buffer.size(), 1, 1);  // managed
  EXPECT_EQ(code(), Code::kUnsupported);
  set(address + 4000, 96, 2, 0);  // only its end
  EXPECT_EQ(code(), Code::kUnsupported);
  set(address, buffer.size(), 1, 0);  // pinned host memory
  EXPECT_EQ(code(), Code::kOk);
  set(1, 1, 2, 0);  // elsewhere
  EXPECT_EQ(code(), Code::kOk);
  dlclose(driver);
}

}  // namespace
}  // namespace wb
