// READs of the verbs transport over fake NICs: every byte right, nothing else touched, and what it
// costs per read.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "counting.h"
#include "verbs_world.h"

namespace wb::test {
namespace {

struct Way {
  const char* name;
  fake::Script script;
  size_t rails;
  VerbsOptions options;
  int generation;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

VerbsOptions small() {
  VerbsOptions options;
  options.max_read = 4096;
  options.nic_budget = 32u << 10;
  options.queue_pairs = 3;
  options.max_slice = 1u << 20;
  return options;
}

class VerbsReads : public testing::TestWithParam<Way> {
 protected:
  VerbsReads()
      : world(GetParam().script, GetParam().rails, GetParam().options, GetParam().generation) {
    world.connect();
  }
  VerbsWorld world;
};

TEST_P(VerbsReads, EveryByteOfOneRun) {
  constexpr uint64_t kBytes = (3u << 20) + 13;  // crosses slices, and is no round number
  const Memory from = world.source_memory(kBytes, 7);
  const Memory to = world.target_memory(kBytes);
  const auto job = world.whole(from, to);
  for (int round = 0; round < 2; ++round) {
    std::memset(to.data(), 0xee, kBytes);
    ASSERT_EQ(world.run(job.get()), JobState::kDone) << job->status().to_string();
    EXPECT_EQ(job->bytes_done(), kBytes);
    expect_pattern(to, 7);
  }
}

// Random strided runs over several regions against a byte-by-byte oracle.
TEST_P(VerbsReads, RandomRunsAndNothingElse) {
  constexpr uint64_t kBytes = (1u << 20) + (512u << 10);
  const std::vector<uint64_t> seeds = {11, 12};
  std::vector<RemoteRegion> remote;
  for (const uint64_t seed : seeds) {
    remote.push_back(world.import(world.source_memory(kBytes, seed)));
  }
  const std::vector<Memory> to = {world.target_memory(kBytes), world.target_memory(kBytes)};
  std::mt19937_64 random(GetParam().rails);
  const auto below = [&random](uint64_t n) { return n == 0 ? 0 : random() % n; };
  for (int round = 0; round < 6; ++round) {
    std::vector<std::vector<uint8_t>> expected(2, std::vector<uint8_t>(kBytes, 0xee));
    for (const Memory& memory : to) std::memset(memory.data(), 0xee, kBytes);
    ReadList list;
    constexpr uint64_t kStrip = 96u << 10;
    for (uint64_t strip = 0; strip < 2 * (kBytes / kStrip); ++strip) {
      wb::Run r;
      r.remote_region = static_cast<uint32_t>(below(seeds.size()));
      r.local_region = static_cast<uint32_t>(strip % 2);
      const uint64_t strip_start = strip / 2 * kStrip;
      r.length = below(strip % 5 == 0 ? 20000 : 300);
      const uint64_t local_pitch = r.length + below(40);
      r.count = local_pitch == 0 ? below(3) : below(kStrip / (local_pitch + 1));
      const bool backwards = below(2) == 1 && r.count != 0;
      r.local_pitch = static_cast<int64_t>(local_pitch) * (backwards ? -1 : 1);
      r.local_offset = strip_start + (backwards ? (r.count - 1) * local_pitch : 0);
      // Often rows that lie together at the source: those share READs.
      const uint64_t remote_pitch =
          below(2) == 0 ? r.length : below((kBytes - 20000) / (r.count + 1) / 2);
      const bool remote_back = below(3) == 0 && r.count != 0;
      r.remote_pitch = static_cast<int64_t>(remote_pitch) * (remote_back ? -1 : 1);
      const uint64_t span = r.count == 0 ? 0 : (r.count - 1) * remote_pitch;
      r.remote_offset = below(kBytes - span - r.length) + (remote_back ? span : 0);
      list.runs.push_back(r);
      for (uint64_t row = 0; row < r.count; ++row) {
        for (uint64_t b = 0; b < r.length; ++b) {
          const uint64_t at = r.local_offset + row * static_cast<uint64_t>(r.local_pitch) + b;
          expected[r.local_region][at] =
              pattern_byte(seeds[r.remote_region],
                           r.remote_offset + row * static_cast<uint64_t>(r.remote_pitch) + b);
        }
      }
    }
    std::shuffle(list.runs.begin(), list.runs.end(), random);
    auto job = world.connection->prepare(list, remote, {{to[0].id, to[1].id}});
    ASSERT_TRUE(job.ok()) << job.status().to_string();
    ASSERT_EQ(world.run(job->get()), JobState::kDone) << (*job)->status().to_string();
    for (size_t t = 0; t < 2; ++t) {
      for (uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(to[t].at(i), expected[t][i]) << t << " " << i;
    }
  }
}

TEST_P(VerbsReads, WordsAreOrderedWithWhatIsWaitedFor) {
  const Memory from = world.source_memory(8192, 5);
  const RemoteRegion remote = world.import(from);
  std::vector<uint64_t> words(1024);
  ASSERT_TRUE(world.connection->read_words(remote, 0, words, in_time()).ok());
  for (uint64_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], pattern_word(5, i));
  auto* stored = reinterpret_cast<uint64_t*>(from.data());
  for (uint64_t round = 0; round < 50; ++round) {
    __atomic_store_n(stored + 7, round, __ATOMIC_RELEASE);
    uint64_t one = 0;
    ASSERT_TRUE(world.connection->read_words(remote, 56, {&one, 1}, in_time()).ok());
    ASSERT_EQ(one, round);
  }
  for (const uint64_t offset : {uint64_t{4}, uint64_t{8192}, UINT64_MAX - 7}) {
    uint64_t one = 0;
    EXPECT_EQ(world.connection->read_words(remote, offset, {&one, 1}, in_time()).code(),
              Code::kInvalidArgument);
  }
}

TEST_P(VerbsReads, SeveralJobsAtOnceShareTheConnection) {
  constexpr uint64_t kBytes = 200u << 10;
  std::vector<Memory> to;
  std::vector<std::unique_ptr<ReadJob>> jobs;
  for (uint64_t i = 0; i < 4; ++i) {
    to.push_back(world.target_memory(kBytes));
    jobs.push_back(world.whole(world.source_memory(kBytes, 30 + i), to.back()));
  }
  for (const auto& job : jobs) ASSERT_TRUE(world.connection->post(*job).ok());
  for (const auto& job : jobs) {
    EXPECT_EQ(world.connection->post(*job).code(), Code::kFailedPrecondition);
  }
  bool active = true;
  const Deadline deadline = in_time();
  while (active && !deadline.expired()) {
    active = false;
    for (const auto& job : jobs) {
      active = world.connection->poll(*job) == JobState::kActive || active;
    }
  }
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(jobs[i]->state(), JobState::kDone) << jobs[i]->status().to_string();
    expect_pattern(to[i], 30 + i);
  }
}

TEST_P(VerbsReads, AnAbortedJobWritesNoMore) {
  constexpr uint64_t kBytes = 4u << 20;
  const Memory from = world.source_memory(kBytes, 9);
  const Memory to = world.target_memory(kBytes);
  const auto job = world.whole(from, to);
  ASSERT_TRUE(world.connection->post(*job).ok());
  world.connection->poll(*job);
  world.fabric->hold(true);
  const Status aborted =
      world.connection->abort(*job, Deadline::after(std::chrono::milliseconds(50)));
  ASSERT_TRUE(aborted.ok()) << aborted.to_string();
  EXPECT_EQ(job->state(), JobState::kFailed);
  EXPECT_EQ(job->status().code(), Code::kCancelled);
  std::memset(to.data(), 0x55, kBytes);
  world.fabric->hold(false);
  for (int i = 0; i < 200; ++i) world.connection->poll(*job);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (uint64_t i = 0; i < kBytes; i += 61) ASSERT_EQ(to.at(i), 0x55) << i;
}

TEST_P(VerbsReads, AJobThatIsDestroyedWhileActiveWritesNoMore) {
  constexpr uint64_t kBytes = 1u << 20;
  const Memory from = world.source_memory(kBytes, 9);
  const Memory to = world.target_memory(kBytes);
  auto job = world.whole(from, to);
  ASSERT_TRUE(world.connection->post(*job).ok());
  world.connection->poll(*job);
  job.reset();
  std::memset(to.data(), 0x55, kBytes);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (uint64_t i = 0; i < kBytes; i += 61) ASSERT_EQ(to.at(i), 0x55) << i;
}

// A source that writes while it is read is really torn: the instrument works.
TEST_P(VerbsReads, AWriterInBetweenTears) {
  constexpr uint64_t kBytes = 2u << 20;
  const Memory from = world.source_memory(kBytes, 1);
  const Memory to = world.target_memory(kBytes);
  const auto job = world.whole(from, to);
  bool torn = false;
  for (int round = 0; round < 50 && !torn; ++round) {
    std::memset(from.data(), 1, kBytes);
    ASSERT_TRUE(world.connection->post(*job).ok());
    while (job->bytes_done() == 0) world.connection->poll(*job);
    world.fabric->hold(true);
    std::memset(from.data(), 2, kBytes);
    world.fabric->hold(false);
    ASSERT_EQ(world.finish(job.get()), JobState::kDone);
    uint64_t old = 0;
    for (uint64_t i = 0; i < kBytes; ++i) old += to.at(i) == 1 ? 1 : 0;
    torn = old != 0 && old != kBytes;
  }
  EXPECT_TRUE(torn);
}

std::vector<Way> ways() {
  const fake::Script by_poll{.seed = 3, .chunk = 1500, .steps_per_poll = 16, .delay = 2};
  const fake::Script by_thread{.engine = fake::Engine::kThread, .seed = 4, .chunk = 4096};
  return {{"OneRail", by_poll, 1, {}, 7},         {"OneRailSmall", by_poll, 1, small(), 5},
          {"ThreeRails", by_poll, 3, small(), 6}, {"EightRails", by_poll, 8, small(), 8},
          {"SoftRoce", by_poll, 2, {}, 0},        {"Thread", by_thread, 2, small(), 7}};
}

INSTANTIATE_TEST_SUITE_P(Ways, VerbsReads, testing::ValuesIn(ways()),
                         [](const auto& info) { return info.param.name; });

// 10^6 reads on a NIC that completes at once and copies nothing: what leaves this library is
// counted.
TEST(VerbsCost, CountsPerRead) {
  constexpr uint64_t kReads = 1000000;
  constexpr uint64_t kRow = 64;
  VerbsOptions options;
  options.queue_pairs = 2;
  VerbsWorld world({.engine = fake::Engine::kInstant}, 1, options);
  const Memory from = world.source_memory(2 * kRow * kReads, 1);
  const Memory to = world.target_memory(kRow * kReads);
  world.connect();
  const RemoteRegion remote = world.import(from);
  const ReadList list{
      .runs = {{.length = kRow, .count = kReads, .remote_pitch = 2 * kRow, .local_pitch = kRow}}};
  const auto job = world.connection->prepare(list, {{remote}}, {{to.id}}).value();
  const auto before = world.link().counters();
  const uint64_t allocated = allocations;
  ASSERT_TRUE(world.connection->post(*job).ok());
  while (world.connection->poll(*job) == JobState::kActive) {
  }
  EXPECT_EQ(allocations, allocated);
  ASSERT_EQ(job->state(), JobState::kDone) << job->status().to_string();
  const auto after = world.link().counters();
  EXPECT_EQ(after.reads - before.reads, kReads);
  EXPECT_LE(after.doorbells - before.doorbells, kReads / 16);
  // The look at the stamps is one more.
  EXPECT_LE(after.completions - before.completions, kReads / 32 + 1);
  EXPECT_EQ(job->bytes_done(), kReads * kRow);
}

}  // namespace
}  // namespace wb::test
