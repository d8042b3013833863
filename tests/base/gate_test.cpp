#include "base/gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace wb {
namespace {

using std::chrono::milliseconds;

TEST(Gate, CloseWaitsForTheInsideAndRefusesNewcomers) {
  Gate gate("publisher");
  std::atomic<bool> left = false;
  auto holder = gate.enter();
  ASSERT_TRUE(holder.ok());
  std::thread inside([&, held = std::move(holder).value()]() mutable {
    while (!gate.closing()) std::this_thread::yield();
    EXPECT_EQ(gate.enter().status().code(), Code::kCancelled);
    left = true;
    Gate::Holder done = std::move(held);
  });
  EXPECT_TRUE(gate.close(Deadline::after(milliseconds(5000))).ok());
  EXPECT_TRUE(left);
  inside.join();
}

TEST(Gate, CloseNamesWhatStays) {
  Gate gate("peer server");
  auto holder = gate.enter();
  ASSERT_TRUE(holder.ok());
  const Status status = gate.close(Deadline::after(milliseconds(5)));
  EXPECT_EQ(status.code(), Code::kDeadline);
  EXPECT_NE(status.message().find("peer server"), std::string::npos);
}

TEST(Gate, ManyThreads) {
  Gate gate("crowd");
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      while (true) {
        auto entry = gate.enter();
        if (!entry.ok()) return;
        ++inside;
        --inside;
      }
    });
  }
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(gate.close(Deadline::after(milliseconds(5000))).ok());
  EXPECT_EQ(inside, 0);
  for (auto& thread : threads) thread.join();
}

TEST(Deadline, RoundsUpAndNeverGoesNegative) {
  EXPECT_EQ(Deadline::after(milliseconds(-5)).remaining_ms(), 0);
  EXPECT_TRUE(Deadline::after(milliseconds(0)).expired());
  const Deadline later = Deadline::after(std::chrono::hours(1));
  EXPECT_FALSE(later.expired());
  EXPECT_GT(later.remaining_ms(), 3590 * 1000);
  EXPECT_LE(later.capped(milliseconds(10)).remaining_ms(), 11);
}

}  // namespace
}  // namespace wb
