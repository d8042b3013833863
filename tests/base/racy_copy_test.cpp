#include "base/racy_copy.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

namespace wb {
namespace {

TEST(RacyCopy, CopiesEveryLengthAndAlignment) {
  std::vector<unsigned char> from(96);
  std::iota(from.begin(), from.end(), static_cast<unsigned char>(1));
  for (size_t offset = 0; offset < 9; ++offset) {
    for (size_t length = 0; length + offset <= from.size(); ++length) {
      std::vector<unsigned char> to(length + 1, 0xee);
      racy_copy(to.data(), from.data() + offset, length);
      ASSERT_TRUE(std::equal(to.begin(), to.end() - 1, from.begin() + static_cast<long>(offset)));
      ASSERT_EQ(to.back(), 0xee) << "wrote past the end";
    }
  }
}

// Run under TSan: the race with a concurrent writer is intended and must not be reported.
TEST(RacyCopy, MayRaceWithAnAtomicWriter) {
  alignas(8) std::vector<uint64_t> shared(64, 0);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (uint64_t value = 1; !stop; ++value) {
      for (auto& word : shared) __atomic_store_n(&word, value, __ATOMIC_RELAXED);
    }
  });
  std::vector<uint64_t> copy(shared.size());
  for (int i = 0; i < 1000; ++i) {
    racy_copy(copy.data(), shared.data(), shared.size() * sizeof(uint64_t));
  }
  stop = true;
  writer.join();
  EXPECT_GE(shared[0], copy[0]);
}

}  // namespace
}  // namespace wb
