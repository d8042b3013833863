#include "base/good_guest.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>

namespace wb {
namespace {

bool blocks(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

TEST(GoodGuest, AThreadStartedInScopeTakesNoSignalsAndTheCallerIsAsBefore) {
  const bool before = blocks(SIGTERM);
  bool inside = false;
  std::thread thread;
  {
    const SignalsBlocked blocked;
    thread = std::thread([&inside] { inside = blocks(SIGTERM) && blocks(SIGINT); });
  }
  thread.join();
  EXPECT_TRUE(inside);
  EXPECT_EQ(blocks(SIGTERM), before);
}

TEST(GoodGuest, ADescriptorIsClosedOnExec) {
  const int fd = eventfd(0, 0);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  close_on_exec(fd);
  EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  close(fd);
}

}  // namespace
}  // namespace wb
