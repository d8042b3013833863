// Whole jobs over the verbs transport, with NICs in memory: every pull ends with one version in
// every byte, or with a typed error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <random>

#include "world.h"

namespace wb::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
const Want kLatest;
constexpr int64_t kRows = 256;

// Trainers cut by rows, a receiver that needs all columns of half of them and one that is cut the
// other way.
class SessionVerbs : public ::testing::Test {
 protected:
  explicit SessionVerbs(uint64_t seed = 1) : world(World::Wire::kVerbs, seed, kRows) {
    world.verbs_options.max_read = 4096;  // many reads
    world.verbs_options.probe_ms = 100;
  }

  void make(PublishMode mode = PublishMode::kInPlace, size_t replicas = 1) {
    std::vector<WorkerLayout> layouts;
    for (size_t i = 0; i < replicas; ++i) {
      for (int64_t part = 0; part < 2; ++part) layouts.push_back(cut_rows(world.table, part, 2));
    }
    auto made = world.train(std::move(layouts), mode);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    trainers = std::move(*made);
    ReceiverOptions options;
    options.on_event = [this](const PullEvent& event) {
      if (event.kind == PullEvent::Kind::kFirstBytes && in_the_middle) {
        std::exchange(in_the_middle, {})();
      }
    };
    auto joined = world.roll_out(cut_columns(world.table, 1, 2), std::move(options));
    ASSERT_TRUE(joined.ok()) << joined.status().to_string();
    rollout = std::move(*joined);
    reader = 2 * replicas;  // the host that came last
  }

  Status pull(Deadline deadline = soon()) {
    poison(rollout.layout, rollout.buffers);
    return rollout.receiver->pull(kLatest, deadline, &report);
  }

  void expect_pulled(uint64_t version) {
    const Status pulled = pull();
    ASSERT_TRUE(pulled.ok()) << pulled.to_string();
    EXPECT_EQ(report.version.number, version);
    EXPECT_EQ(world.wrong(rollout, version), 0u);
    for (const SourceReport& source : report.sources) {
      EXPECT_THAT(source.mechanism, StartsWith("verbs ")) << source.worker;
    }
  }

  World world;
  std::vector<Trainer> trainers;
  Rollout rollout;
  PullReport report;
  size_t reader = 0;
  std::function<void()> in_the_middle;  // once, when the first bytes of a pull are there
};

TEST_F(SessionVerbs, VersionsInPlaceAndBetweenThemAnUpdateInTheMiddle) {
  make();
  world.publish(trainers, 1);
  expect_pulled(1);
  EXPECT_EQ(report.torn, 0u);
  for (uint64_t version = 2; version < 6; ++version) {
    // The sources change while they are read.
    in_the_middle = [&] { world.publish(trainers, version); };
    expect_pulled(version);
    EXPECT_GE(report.torn, 1u);
    EXPECT_GE(report.attempts, 2u);
  }
}

TEST_F(SessionVerbs, SnapshotsAreNotTorn) {
  make(PublishMode::kSnapshot);
  world.publish(trainers, 1);
  expect_pulled(1);
  in_the_middle = [&] { world.publish(trainers, 2); };
  expect_pulled(1);
  EXPECT_EQ(report.torn, 0u);
  expect_pulled(2);
}

TEST_F(SessionVerbs, APathThatFailsInTheMiddleIsDoneWithout) {
  make();
  world.publish(trainers, 1);
  expect_pulled(1);
  for (const std::string nic : {"nic0", "nic1"}) {
    in_the_middle = [&] { world.fabric.break_queue_pairs(reader, nic); };
    expect_pulled(1);
    in_the_middle = [&] { world.fabric.set_link(reader, nic, false); };
    expect_pulled(1);
    world.fabric.set_link(reader, nic, true);
    expect_pulled(1);
  }
}

TEST_F(SessionVerbs, ConnectionsThatAreLostAreMadeAgain) {
  make();
  world.publish(trainers, 1);
  expect_pulled(1);
  // Without a word, as when all of a host's state is lost.
  for (size_t host = 0; host < 2; ++host) {
    in_the_middle = [&, host] { world.fabric.kill(host); };
    expect_pulled(1);
  }
  in_the_middle = [&] {
    for (const char* nic : {"nic0", "nic1"}) world.fabric.break_queue_pairs(reader, nic);
  };
  expect_pulled(1);
}

TEST_F(SessionVerbs, AReplicaTakesOverFromASourceWithoutNics) {
  make(PublishMode::kInPlace, 2);
  world.publish(trainers, 1);
  expect_pulled(1);
  in_the_middle = [&] {
    for (const char* nic : {"nic0", "nic1"}) world.fabric.set_link(0, nic, false);
  };
  expect_pulled(1);
}

TEST_F(SessionVerbs, WithoutAnyPathItIsATypedErrorAndLaterWorksAgain) {
  make();
  world.publish(trainers, 1);
  expect_pulled(1);
  const auto set_links = [&](bool up) {
    for (const char* nic : {"nic0", "nic1"}) world.fabric.set_link(reader, nic, up);
  };
  in_the_middle = [&] { set_links(false); };
  const Status status = pull(within(seconds(3)));
  EXPECT_THAT(status.code(), ::testing::AnyOf(Code::kPeerLost, Code::kUnavailable, Code::kDeadline))
      << status.to_string();
  EXPECT_EQ(report.memory, MemoryState::kTorn);
  set_links(true);
  expect_pulled(1);
}

TEST_F(SessionVerbs, ADeadlineInTheMiddleEndsTheReads) {
  make();
  world.publish(trainers, 1);
  expect_pulled(1);
  in_the_middle = [&] { world.fabric.hold(true); };
  const Status status = pull(within(milliseconds(300)));
  EXPECT_EQ(status.code(), Code::kDeadline) << status.to_string();
  EXPECT_EQ(report.memory, MemoryState::kTorn);
  world.fabric.hold(false);
  expect_pulled(1);
}

// Reads that never end by themselves, as when a NIC loses its state: the time is used up, and it is
// said by whom.
TEST_F(SessionVerbs, ReadsThatNeverEndEndWithTheDeadline) {
  make();
  world.publish(trainers, 1);
  expect_pulled(1);
  in_the_middle = [&] { world.fabric.kill(reader); };
  const Status status = pull(within(milliseconds(500)));
  EXPECT_EQ(status.code(), Code::kDeadline) << status.to_string();
  EXPECT_EQ(report.memory, MemoryState::kTorn);
  expect_pulled(1);
}

// The memory may change at any time from then on: no later pull calls it whole.
TEST_F(SessionVerbs, AQueuePairThatCannotBeDestroyedEndsTheReceiver) {
  make();
  world.publish(trainers, 1);
  expect_pulled(1);
  in_the_middle = [&] {
    world.fabric.keep_queue_pairs(reader, "nic0", EBUSY);
    world.fabric.fail_read(reader, "nic0", IBV_WC_RETRY_EXC_ERR, 0);
  };
  const Status status = pull();
  EXPECT_EQ(status.code(), Code::kInternal) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("may still write"));
  EXPECT_EQ(report.memory, MemoryState::kTorn);
  for (int i = 0; i < 2; ++i) {
    const Status again = pull(within(seconds(5)));
    EXPECT_EQ(again.code(), Code::kInternal) << again.to_string();
    EXPECT_THAT(again.message(), HasSubstr("earlier pull"));
  }
  EXPECT_EQ(rollout.receiver->close(within(seconds(5))).code(), Code::kInternal);
}

// Faults at random moments and places, updates at random moments.
class SessionVerbsSoak : public SessionVerbs, public ::testing::WithParamInterface<uint64_t> {
 protected:
  SessionVerbsSoak() : SessionVerbs(GetParam()) {}
};

TEST_P(SessionVerbsSoak, NeverWrongBytes) {
  std::mt19937_64 random(GetParam());
  make(PublishMode::kInPlace, 2);
  world.publish(trainers, 1);
  uint64_t version = 1;
  for (int round = 0; round < 12; ++round) {
    const std::string nic = "nic" + std::to_string(random() % 2);
    const size_t host = random() % (reader + 1);
    const size_t source = random() % reader;
    const auto after = static_cast<uint32_t>(random() % 40);
    const auto fault = random() % 6;
    in_the_middle = [&] {
      switch (fault) {
        case 0:
          world.fabric.fail_read(reader, nic, IBV_WC_REM_ACCESS_ERR, 0, after);
          break;
        case 1:
          world.fabric.fail_read(reader, nic, IBV_WC_RETRY_EXC_ERR, 0, after);
          break;
        case 2:
          world.fabric.break_queue_pairs(host, nic);
          break;
        case 3:
          world.fabric.set_link(host, nic, false);
          break;
        case 4:
          world.fabric.kill(source);
          break;
        default:
          world.publish(trainers, ++version);
          break;
      }
    };
    const Status status = pull(within(seconds(20)));
    if (status.ok()) {
      EXPECT_EQ(world.wrong(rollout, report.version.number), 0u) << round << " fault " << fault;
      EXPECT_EQ(report.memory, MemoryState::kComplete);
    } else {
      EXPECT_NE(status.code(), Code::kInternal) << status.to_string();
      EXPECT_NE(report.memory, MemoryState::kComplete);
    }
    in_the_middle = {};
    world.fabric.set_link(host, nic, true);
  }
  expect_pulled(version);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SessionVerbsSoak, ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace wb::testing
