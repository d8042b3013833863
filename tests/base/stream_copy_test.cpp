#include "base/stream_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace wb {
namespace {

// Every alignment of both sides against a cache line, lengths around lines and pages, and not one
// byte beside the range touched.
TEST(StreamCopy, CopiesExactlyTheRange) {
  std::vector<unsigned char> from(9 * 4096);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 131 + i / 251);
  std::vector<unsigned char> to(from.size());
  for (const size_t bytes :
       {0u, 1u, 15u, 63u, 64u, 65u, 127u, 128u, 129u, 511u, 4095u, 4096u, 4097u, 20000u}) {
    for (size_t source = 0; source < 64; source += 7) {
      for (size_t target = 0; target < 128; ++target) {
        std::fill(to.begin(), to.end(), static_cast<unsigned char>(0xA5));
        stream_copy(to.data() + target, from.data() + source, bytes, {});
        stream_fence();
        ASSERT_TRUE(std::equal(to.begin() + static_cast<ptrdiff_t>(target),
                               to.begin() + static_cast<ptrdiff_t>(target + bytes),
                               from.begin() + static_cast<ptrdiff_t>(source)))
            << bytes << " bytes, " << source << " -> " << target;
        const auto touched = static_cast<size_t>(
            std::count_if(to.begin(), to.begin() + static_cast<ptrdiff_t>(target),
                          [](unsigned char c) { return c != 0xA5; }) +
            std::count_if(to.begin() + static_cast<ptrdiff_t>(target + bytes), to.end(),
                          [](unsigned char c) { return c != 0xA5; }));
        ASSERT_EQ(touched, 0u) << bytes << " bytes, " << source << " -> " << target;
      }
    }
  }
}

// The next range is a hint: no address of it is read, written or faulted on.
TEST(StreamCopy, NeverTouchesTheNextRange) {
  std::vector<unsigned char> from(70000, 1);
  std::vector<unsigned char> to(70000, 2);
  const NextRange nowhere{.from = reinterpret_cast<const void*>(uintptr_t{64}),
                          .to = reinterpret_cast<void*>(uintptr_t{128}),
                          .bytes = 1u << 20};
  stream_copy(to.data(), from.data(), from.size(), nowhere);
  stream_fence();
  EXPECT_EQ(to, from);
}

}  // namespace
}  // namespace wb
