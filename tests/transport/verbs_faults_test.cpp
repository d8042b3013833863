// What goes wrong between two NICs, in every way that a NIC can tell of: each job ends, with the
// right bytes or with the error that names what happened.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "transport/verbs/completion.h"
#include "verbs_world.h"

namespace wb::test {
namespace {

using verbs::Blame;

constexpr uint64_t kBytes = 4u << 20;

// Many small reads, so that a fault meets some that are done and some that are not.
VerbsOptions small_reads() {
  VerbsOptions options;
  options.max_read = 4096;
  options.nic_budget = 256u << 10;
  options.queue_pairs = 2;
  options.max_slice = uint64_t{4} << 20;
  return options;
}

fake::Script by_poll() { return {.seed = 5, .chunk = 1024, .steps_per_poll = 8, .delay = 1}; }

// A failed job leaves old bytes and right new ones, never others.
void expect_old_or_right(const Memory& to, uint64_t seed) {
  for (uint64_t i = 0; i < to.bytes->bytes(); ++i) {
    if (to.at(i) == 0xee) continue;
    ASSERT_EQ(to.at(i), pattern_byte(seed, i)) << i;
  }
}

std::vector<ibv_wc_status> all_statuses() {
  std::vector<ibv_wc_status> out;
  for (int i = 1; i <= IBV_WC_TM_RNDV_INCOMPLETE; ++i) out.push_back(static_cast<ibv_wc_status>(i));
  return out;
}

class VerbsStatus : public testing::TestWithParam<ibv_wc_status> {};

TEST_P(VerbsStatus, IsATypedErrorOnOneRail) {
  VerbsWorld world(by_poll(), 1, small_reads());
  world.connect();
  const Memory from = world.source_memory(kBytes, 1);
  const Memory to = world.target_memory(kBytes);
  const auto job = world.whole(from, to);
  world.fabric->fail_read(1, "nic0", GetParam(), 0x51, 40);
  ASSERT_EQ(world.run(job.get()), JobState::kFailed);
  const Status status = job->status();
  EXPECT_NE(status.code(), Code::kOk);
  EXPECT_NE(status.code(), Code::kCancelled);
  EXPECT_NE(status.message().find(verbs::completion_name(GetParam())), std::string::npos)
      << status.to_string();
  EXPECT_NE(status.message().find("queue pair"), std::string::npos);
  EXPECT_NE(status.message().find("reads "), std::string::npos);
  EXPECT_EQ(status.facts().vendor, int64_t{0x51} << 32 | GetParam());
  EXPECT_EQ(status.facts().peer, "10.0.0.1");
  expect_old_or_right(to, 1);
  EXPECT_FALSE(world.connection->alive().ok());
  // A new connection works.
  world.connect();
  const auto again = world.whole(from, to);
  ASSERT_EQ(world.run(again.get()), JobState::kDone) << again->status().to_string();
  expect_pattern(to, 1);
  EXPECT_EQ(world.fabric->overruns(), 0u);
}

TEST_P(VerbsStatus, OnOneOfTwoRailsIsMendedWhenThePathIsToBlame) {
  VerbsWorld world(by_poll(), 2, small_reads());
  world.connect();
  const Memory from = world.source_memory(kBytes, 1);
  const Memory to = world.target_memory(kBytes);
  const auto job = world.whole(from, to);
  world.fabric->fail_read(1, "nic1", GetParam(), 0, 30);
  const JobState end = world.run(job.get());
  if (verbs::blame_of(GetParam()) == Blame::kRequest) {
    EXPECT_EQ(end, JobState::kFailed);
    expect_old_or_right(to, 1);
  } else {
    ASSERT_EQ(end, JobState::kDone) << job->status().to_string();
    expect_pattern(to, 1);
    EXPECT_NE(world.connection->mechanism().find("failed"), std::string::npos);
  }
  EXPECT_TRUE(world.connection->alive().ok());
}

INSTANTIATE_TEST_SUITE_P(All, VerbsStatus, testing::ValuesIn(all_statuses()), [](const auto& info) {
  return std::string(verbs::completion_name(info.param));
});

class VerbsFaults : public testing::TestWithParam<size_t> {
 protected:
  VerbsFaults() : world(by_poll(), GetParam(), small_reads()) {
    world.connect();
    from = world.source_memory(kBytes, 1);
    to = world.target_memory(kBytes);
    job = world.whole(from, to);
  }
  bool several() const { return GetParam() > 1; }
  // Posts, and polls until some bytes are there.
  void begin() {
    ASSERT_TRUE(world.connection->post(*job).ok());
    while (job->bytes_done() < kBytes / 8) {
      ASSERT_EQ(world.connection->poll(*job), JobState::kActive) << job->status().to_string();
    }
  }
  // With another rail the job ends well, alone it fails like this.
  void expect_mended_or(Code code) {
    const JobState end = world.finish(job.get());
    if (several()) {
      ASSERT_EQ(end, JobState::kDone) << job->status().to_string();
      expect_pattern(to, 1);
      EXPECT_NE(world.connection->mechanism().find("failed"), std::string::npos)
          << "the fault was not met";
    } else {
      ASSERT_EQ(end, JobState::kFailed);
      EXPECT_EQ(job->status().code(), code) << job->status().to_string();
      expect_old_or_right(to, 1);
    }
    EXPECT_EQ(world.fabric->overruns(), 0u);
  }
  VerbsWorld world;
  Memory from, to;
  std::unique_ptr<ReadJob> job;
};

TEST_P(VerbsFaults, ShortPostsCostNothingButTime) {
  world.fabric->limit_posts(1, "nic0", 3, ENOMEM, 25);
  ASSERT_EQ(world.run(job.get()), JobState::kDone) << job->status().to_string();
  EXPECT_EQ(job->bytes_done(), kBytes);
  expect_pattern(to, 1);
}

TEST_P(VerbsFaults, AQueueThatIsFullIsTriedAgain) {
  begin();
  world.fabric->limit_posts(1, "nic0", 0, ENOMEM, 7);
  ASSERT_EQ(world.finish(job.get()), JobState::kDone) << job->status().to_string();
  expect_pattern(to, 1);
}

TEST_P(VerbsFaults, AQueueThatNeverTakesAnythingIsAFailedPath) {
  begin();
  world.fabric->limit_posts(1, "nic0", 0, ENOMEM, UINT32_MAX);
  expect_mended_or(Code::kNoMemory);
}

// What was posted before the refusal is unsignalled: nothing tells of it.
TEST_P(VerbsFaults, APartialPostWithoutASuccessorIsAFailedPath) {
  begin();
  world.fabric->stop_posts(1, "nic0", 5, ENOMEM);
  expect_mended_or(Code::kNoMemory);
}

// The end of a list may be posted in part, while another queue pair takes the rest.
TEST_P(VerbsFaults, EveryPostIsPartial) {
  world.fabric->limit_posts(1, "nic0", 1, ENOMEM, UINT32_MAX);
  ASSERT_EQ(world.run(job.get()), JobState::kDone) << job->status().to_string();
  expect_pattern(to, 1);
}

TEST_P(VerbsFaults, ARefusedPostIsAFailedPath) {
  begin();
  world.fabric->limit_posts(1, "nic0", 5, EINVAL, UINT32_MAX);
  expect_mended_or(Code::kIo);
}

TEST_P(VerbsFaults, LinkDown) {
  begin();
  world.fabric->set_link(1, "nic0", false);
  expect_mended_or(Code::kUnavailable);
}

TEST_P(VerbsFaults, LinkOfTheSourceDown) {
  begin();
  world.fabric->set_link(0, "nic0", false);
  expect_mended_or(Code::kPeerLost);
}

TEST_P(VerbsFaults, QueuePairsForcedToError) {
  begin();
  world.fabric->break_queue_pairs(1, "nic0");
  expect_mended_or(Code::kUnavailable);
}

TEST_P(VerbsFaults, QueuePairsOfTheSourceForcedToError) {
  begin();
  world.fabric->break_queue_pairs(0, "nic0");
  expect_mended_or(Code::kPeerLost);
}

TEST_P(VerbsFaults, DeviceRemoved) {
  begin();
  world.fabric->remove(1, "nic0");
  expect_mended_or(Code::kUnavailable);
}

TEST_P(VerbsFaults, SourceKilled) {
  begin();
  world.fabric->kill(0);
  ASSERT_EQ(world.finish(job.get()), JobState::kFailed);
  EXPECT_EQ(job->status().code(), Code::kPeerLost) << job->status().to_string();
  EXPECT_TRUE(job->status().retryable());
  expect_old_or_right(to, 1);
  uint64_t word = 0;
  EXPECT_EQ(world.connection->read_words(0, 0, {&word, 1}, in_time()).code(), Code::kPeerLost);
  EXPECT_EQ(world.connection->alive().code(), Code::kPeerLost);
}

TEST_P(VerbsFaults, SourceKilledBetweenJobs) {
  ASSERT_EQ(world.run(job.get()), JobState::kDone);
  world.fabric->kill(0);
  uint64_t word = 0;
  EXPECT_EQ(world.connection->read_words(0, 0, {&word, 1}, in_time()).code(), Code::kPeerLost);
  EXPECT_EQ(world.connection->post(*job).code(), Code::kPeerLost);
  EXPECT_EQ(job->state(), JobState::kDone);
}

TEST_P(VerbsFaults, RegionDeregisteredUnderReads) {
  begin();
  ASSERT_TRUE(world.source->deregister_region(from.id).ok());
  std::memset(from.data(), 0xdd, kBytes);  // freed memory that is used for something else
  ASSERT_EQ(world.finish(job.get()), JobState::kFailed);
  EXPECT_EQ(job->status().code(), Code::kPeerLost) << job->status().to_string();
  expect_old_or_right(to, 1);
}

TEST_P(VerbsFaults, AStaleKeyIsRefusedWithoutCostingTheConnection) {
  const Memory other = world.source_memory(4096, 2);
  ASSERT_TRUE(world.source->deregister_region(other.id).ok());
  EXPECT_EQ(world.connection->import_region(other.key, in_time()).status().code(), Code::kNotFound);
  ASSERT_EQ(world.run(job.get()), JobState::kDone) << job->status().to_string();
}

// Keys run out and are given out again: the NIC reads other memory and reports success.
TEST_P(VerbsFaults, AKeyThatIsGivenOutAgainIsFoundOut) {
  const Memory other = world.source_memory(4096, 2);
  const Memory small = world.target_memory(4096);
  const auto stale = world.whole(other, small);
  ASSERT_EQ(world.run(stale.get()), JobState::kDone);
  ASSERT_TRUE(world.source->deregister_region(other.id).ok());
  for (size_t rail = 0; rail < GetParam(); ++rail) {
    world.fabric->reuse_keys(0, "nic" + std::to_string(rail));
  }
  ASSERT_TRUE(world.source->register_region(other.bytes, Access::kRemoteRead).ok());
  ASSERT_EQ(world.run(stale.get()), JobState::kFailed);
  EXPECT_EQ(stale->status().code(), Code::kPeerLost) << stale->status().to_string();
  EXPECT_NE(stale->status().message().find("deregistered"), std::string::npos);
  // The connection is as good as before.
  ASSERT_EQ(world.run(job.get()), JobState::kDone) << job->status().to_string();
}

TEST_P(VerbsFaults, AHangingSourceEndsWithTheDeadline) {
  begin();
  world.fabric->hold(true);
  uint64_t word = 0;
  EXPECT_EQ(
      world.connection->read_words(0, 0, {&word, 1}, Deadline::after(std::chrono::milliseconds(30)))
          .code(),
      Code::kDeadline);
  const Status aborted =
      world.connection->abort(*job, Deadline::after(std::chrono::milliseconds(30)));
  EXPECT_TRUE(aborted.ok()) << aborted.to_string();
  EXPECT_EQ(job->state(), JobState::kFailed);
  world.fabric->hold(false);
}

// A read of words whose wait ended at its deadline does not spoil the next one.
TEST_P(VerbsFaults, WordsThatCameTooLateAreNotTakenForLaterOnes) {
  world.fabric->hold(true);
  uint64_t word = 0;
  EXPECT_EQ(
      world.connection->read_words(0, 0, {&word, 1}, Deadline::after(std::chrono::milliseconds(10)))
          .code(),
      Code::kDeadline);
  world.fabric->hold(false);
  for (uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(world.connection->read_words(0, 8 * i, {&word, 1}, in_time()).ok());
    ASSERT_EQ(word, pattern_word(1, i));
  }
}

// Nobody knows what its NIC still writes: the job is never finished by another path, and its memory
// never taken for good again.
TEST_P(VerbsFaults, AQueuePairThatCannotBeDestroyedStopsTheJobForGood) {
  begin();
  world.fabric->keep_queue_pairs(1, "nic0", EBUSY);
  world.fabric->fail_read(1, "nic0", IBV_WC_RETRY_EXC_ERR, 0);
  ASSERT_EQ(world.finish(job.get()), JobState::kFailed);
  EXPECT_EQ(job->status().code(), Code::kInternal) << job->status().to_string();
  EXPECT_FALSE(job->status().retryable());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(world.connection->abort(*job, in_time()).code(), Code::kInternal);
    EXPECT_EQ(world.connection->post(*job).code(), Code::kInternal);
  }
  uint64_t word = 0;
  EXPECT_EQ(world.connection->read_words(0, 0, {&word, 1}, in_time()).code(), Code::kInternal);
  EXPECT_EQ(world.connection->alive().code(), Code::kInternal);
  // What is in flight arrives in memory that is still there.
  job.reset();
  world.connection.reset();
  expect_old_or_right(to, 1);
}

class VerbsSeveralRails : public VerbsFaults {};

TEST_P(VerbsSeveralRails, AFailedPathIsMadeAgainWhenItsLinkIsBack) {
  begin();
  world.fabric->set_link(1, "nic1", false);
  ASSERT_EQ(world.finish(job.get()), JobState::kDone) << job->status().to_string();
  world.fabric->set_link(1, "nic1", true);
  const Deadline deadline = in_time();
  while (world.connection->mechanism().find("failed") != std::string::npos) {
    ASSERT_FALSE(deadline.expired()) << world.connection->mechanism();
    uint64_t word = 0;
    ASSERT_TRUE(world.connection->read_words(0, 0, {&word, 1}, in_time()).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::memset(to.data(), 0xee, kBytes);
  ASSERT_EQ(world.run(job.get()), JobState::kDone) << job->status().to_string();
  expect_pattern(to, 1);
}

INSTANTIATE_TEST_SUITE_P(Rails, VerbsFaults, testing::Values(1, 2, 3),
                         [](const auto& info) { return "Rails" + std::to_string(info.param); });

INSTANTIATE_TEST_SUITE_P(Rails, VerbsSeveralRails, testing::Values(2, 3),
                         [](const auto& info) { return "Rails" + std::to_string(info.param); });

// Faults at random moments and places: a job that says it is done has every byte right.
TEST(VerbsSoak, RandomFaultsNeverGiveWrongBytes) {
  uint64_t done = 0;
  uint64_t failed = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    std::mt19937_64 random(seed);
    const size_t rails = 1 + random() % 3;
    fake::Script script = by_poll();
    script.seed = seed;
    script.delay = static_cast<uint32_t>(random() % 4);
    VerbsWorld world(script, rails, small_reads(), seed % 2 == 0 ? 0 : 7);
    world.connect();
    constexpr uint64_t kSize = 256u << 10;
    const Memory from = world.source_memory(kSize, seed);
    const Memory to = world.target_memory(kSize);
    const auto job = world.whole(from, to);
    for (int round = 0; round < 3 && world.connection->alive().ok(); ++round) {
      std::memset(to.data(), 0xee, kSize);
      if (!world.connection->post(*job).ok()) break;
      const uint64_t at = random() % 50;
      const std::string nic = "nic" + std::to_string(random() % rails);
      const uint64_t fault = random() % 8;
      const Deadline deadline = in_time();
      for (uint64_t poll = 0; world.connection->poll(*job) == JobState::kActive; ++poll) {
        ASSERT_FALSE(deadline.expired()) << "seed " << seed;
        if (poll != at) continue;
        switch (fault) {
          case 0:
            world.fabric->fail_read(1, nic, all_statuses()[random() % 23], 0, 3);
            break;
          case 1:
            world.fabric->set_link(1, nic, false);
            break;
          case 2:
            world.fabric->set_link(0, nic, false);
            break;
          case 3:
            world.fabric->limit_posts(1, nic, static_cast<uint32_t>(random() % 9), ENOMEM, 20);
            break;
          case 4:
            world.fabric->break_queue_pairs(random() % 2, nic);
            break;
          case 5:
            world.fabric->remove(random() % 2, nic);
            break;
          case 6:
            (void)world.source->deregister_region(from.id);
            break;
          default:
            world.fabric->kill(0);
        }
      }
      if (job->state() == JobState::kDone) {
        ++done;
        expect_pattern(to, seed);
      } else {
        ++failed;
        EXPECT_FALSE(job->status().ok());
        expect_old_or_right(to, seed);
      }
      ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed << ", fault " << fault;
    }
    EXPECT_EQ(world.fabric->overruns(), 0u);
  }
  EXPECT_GT(done, 20u);
  EXPECT_GT(failed, 20u);
}

}  // namespace
}  // namespace wb::test
