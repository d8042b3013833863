// The bounds of runs against an oracle that walks every row.
#include "transport/run_check.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

namespace wb {
namespace {

bool oracle(const Run& run, uint64_t remote_bytes, uint64_t local_bytes) {
  std::set<__int128> written;
  for (uint64_t row = 0; row < run.count; ++row) {
    for (uint64_t byte = 0; byte < run.length; ++byte) {
      const auto at = static_cast<__int128>(row);
      const __int128 from = static_cast<__int128>(run.remote_offset) + at * run.remote_pitch + byte;
      const __int128 to = static_cast<__int128>(run.local_offset) + at * run.local_pitch + byte;
      if (from < 0 || from >= static_cast<__int128>(remote_bytes)) return false;
      if (to < 0 || to >= static_cast<__int128>(local_bytes)) return false;
      if (!written.insert(to).second) return false;
    }
  }
  return true;
}

TEST(RunCheck, AgreesWithAWalkOverEveryRow) {
  EXPECT_TRUE(rc::check([] {
    const auto range = [](int64_t low, int64_t high) { return *rc::gen::inRange(low, high); };
    wb::Run run;
    run.remote_offset = static_cast<uint64_t>(range(0, 40));
    run.local_offset = static_cast<uint64_t>(range(0, 40));
    run.length = static_cast<uint64_t>(range(0, 8));
    run.count = static_cast<uint64_t>(range(0, 5));
    run.remote_pitch = range(-12, 12);
    run.local_pitch = range(-12, 12);
    const uint64_t remote = static_cast<uint64_t>(range(0, 60));
    const uint64_t local = static_cast<uint64_t>(range(0, 60));
    const auto checked = check_list({.runs = {run}}, {{remote}}, {{local}});
    RC_ASSERT(checked.ok() == oracle(run, remote, local));
    if (checked.ok()) {
      RC_ASSERT(checked->bytes == run.length * run.count);
      RC_ASSERT(checked->reads == (run.length == 0 ? 0 : run.count));
    }
  }));
}

TEST(RunCheck, NumbersAtTheEndsDoNotWrap) {
  constexpr uint64_t kMax = UINT64_MAX;
  const auto accepts = [](const wb::Run& run) {
    return check_list({.runs = {run}}, {{kMax}}, {{kMax}}).ok();
  };
  EXPECT_TRUE(accepts({.length = kMax}));
  EXPECT_FALSE(accepts({.remote_offset = 1, .length = kMax}));
  EXPECT_FALSE(accepts({.length = 2, .count = kMax, .remote_pitch = 1, .local_pitch = INT64_MAX}));
  EXPECT_FALSE(accepts({.length = 1, .count = 2, .remote_pitch = 0, .local_pitch = INT64_MIN}));
  EXPECT_TRUE(accepts({.local_offset = uint64_t{1} << 63,
                       .length = 1,
                       .count = 2,
                       .remote_pitch = 0,
                       .local_pitch = INT64_MIN}));
  // Each run fits, their sum does not.
  const wb::Run big{.length = kMax};
  EXPECT_FALSE(check_list({.runs = {big, big}}, {{kMax}}, {{kMax}}).ok());
}

}  // namespace
}  // namespace wb
