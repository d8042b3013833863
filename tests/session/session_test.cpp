// Publishers and receivers of one job: what a pull promises in each mode, over a wire that tears
// (fake) and over the real local one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "world.h"

namespace wb::testing {
namespace {

using ::testing::HasSubstr;
using Wire = World::Wire;

const Want kLatest;
Want exactly(uint64_t number) { return {Want::Kind::kExactly, number}; }
Want at_least(uint64_t number) { return {Want::Kind::kAtLeast, number}; }

std::vector<WorkerLayout> rows_of(const TensorTable& table, int64_t parts) {
  std::vector<WorkerLayout> out;
  for (int64_t part = 0; part < parts; ++part) out.push_back(cut_rows(table, part, parts));
  return out;
}

class Session : public ::testing::TestWithParam<Wire> {};
INSTANTIATE_TEST_SUITE_P(Wires, Session, ::testing::Values(Wire::kFake, Wire::kLocal),
                         [](const auto& info) {
                           return info.param == Wire::kFake ? "fake" : "local";
                         });

TEST_P(Session, ALivePullReshardsEveryByte) {
  World world(GetParam());
  auto trainers = world.train(rows_of(world.table, 3));
  ASSERT_TRUE(trainers.ok()) << trainers.status().to_string();
  std::vector<Rollout> rollouts;
  for (int64_t part = 0; part < 2; ++part) {
    ReceiverOptions options;
    options.name = "rollout-" + std::to_string(part);
    options.index = static_cast<uint32_t>(part);
    auto rollout = world.roll_out(cut_columns(world.table, part, 2), options);
    ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
    rollouts.push_back(std::move(rollout).value());
  }
  for (const uint64_t version : {1u, 2u, 7u}) {
    world.publish(*trainers, version);
    for (Rollout& rollout : rollouts) {
      PullReport report;
      const Status status = rollout.receiver->pull(kLatest, soon(), &report);
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(report.version, (Version{1, version}));
      EXPECT_EQ(report.memory, MemoryState::kComplete);
      EXPECT_EQ(world.wrong(rollout, version), 0u);
      EXPECT_EQ(report.bytes, rollout.layout.piece_bytes(world.table));
      EXPECT_EQ(report.attempts, 1u);
      EXPECT_EQ(report.torn, 0u);
      EXPECT_EQ(report.versions_skipped, version == 7 ? 4u : 0u);
      ASSERT_EQ(report.sources.size(), 3u);
      for (const SourceReport& source : report.sources) {
        EXPECT_EQ(source.transport, GetParam() == Wire::kFake ? "fake" : "local");
        EXPECT_FALSE(source.reason.empty());
        EXPECT_GT(source.bytes, 0u);
      }
      std::set<PullStep> steps;
      uint64_t end = 0;
      for (const TimelineEntry& entry : report.timeline) {
        EXPECT_LE(entry.begin_ns, entry.end_ns);
        EXPECT_GE(entry.begin_ns, end);
        end = entry.end_ns;
        steps.insert(entry.step);
      }
      for (const PullStep step : {PullStep::kDiscover, PullStep::kWait, PullStep::kRead,
                                  PullStep::kCheck, PullStep::kInstall})
        EXPECT_TRUE(steps.contains(step)) << static_cast<int>(step);
      EXPECT_GE(report.total_ns, end);
    }
  }
}

TEST_P(Session, WantsAreHonoured) {
  World world(GetParam());
  auto trainers = world.train(rows_of(world.table, 2), PublishMode::kSnapshot, 3);
  ASSERT_TRUE(trainers.ok()) << trainers.status().to_string();
  auto rollout = world.roll_out(whole(world.table));
  ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
  for (uint64_t version = 1; version <= 4; ++version) world.publish(*trainers, version);
  PullReport report;
  // Three slots hold 2, 3 and 4.
  for (const uint64_t version : {3u, 2u, 4u}) {
    const Status status = rollout->receiver->pull(exactly(version), soon(), &report);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(report.version.number, version);
    EXPECT_EQ(world.wrong(*rollout, version), 0u);
  }
  ASSERT_TRUE(rollout->receiver->pull(at_least(2), soon(), &report).ok());
  EXPECT_EQ(report.version.number, 4u);

  poison(rollout->layout, rollout->buffers);
  const Status gone = rollout->receiver->pull(exactly(1), within(milliseconds(50)), &report);
  EXPECT_EQ(gone.code(), Code::kDeadline);
  EXPECT_THAT(gone.message(), HasSubstr("version 1 did not come"));
  EXPECT_THAT(gone.message(), HasSubstr("the newest seen is version 4"));
  EXPECT_EQ(report.memory, MemoryState::kUntouched);
  const Status future = rollout->receiver->pull(at_least(5), within(milliseconds(50)), &report);
  EXPECT_EQ(future.code(), Code::kDeadline);
  EXPECT_EQ(report.memory, MemoryState::kUntouched);

  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(20));
    world.publish(*trainers, 5);
  });
  EXPECT_TRUE(rollout->receiver->pull(at_least(5), soon(), &report).ok());
  later.join();
  EXPECT_EQ(world.wrong(*rollout, 5), 0u);
}

TEST_P(Session, AVersionThatNeverComesEndsByTheDeadline) {
  World world(GetParam());
  auto rollout = world.roll_out(whole(world.table));
  ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
  PullReport report;
  const Status nobody = rollout->receiver->pull(kLatest, within(milliseconds(100)), &report);
  EXPECT_EQ(nobody.code(), Code::kDeadline);
  EXPECT_THAT(nobody.message(), HasSubstr("no trainer has joined"));
  auto trainers = world.train(rows_of(world.table, 2));
  ASSERT_TRUE(trainers.ok());
  const Status nothing = rollout->receiver->pull(kLatest, within(milliseconds(500)), &report);
  EXPECT_EQ(nothing.code(), Code::kDeadline);
  EXPECT_THAT(nothing.message(), HasSubstr("no source holds a finished version"));
  EXPECT_EQ(report.memory, MemoryState::kUntouched);
}

// The update begins after the first bytes have arrived: the attempt must be discarded.
TEST_P(Session, AForcedTearIsDetectedAndRetried) {
  World world(GetParam());
  auto trainers = world.train(rows_of(world.table, 2));
  ASSERT_TRUE(trainers.ok()) << trainers.status().to_string();
  std::atomic<int> torn_events = 0;
  std::atomic<uint64_t> next = 2;
  ReceiverOptions options;
  options.on_event = [&](const PullEvent& event) {
    if (event.kind == PullEvent::Kind::kTorn) ++torn_events;
    if (event.kind == PullEvent::Kind::kFirstBytes && next <= 4) world.publish(*trainers, next++);
  };
  auto rollout = world.roll_out(cut_columns(world.table, 1, 2), options);
  ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
  world.publish(*trainers, 1);
  PullReport report;
  const Status status = rollout->receiver->pull(kLatest, soon(), &report);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_GE(report.torn, 1u);
  EXPECT_EQ(report.torn, static_cast<uint32_t>(torn_events));
  EXPECT_EQ(report.attempts, report.torn + 1);
  EXPECT_EQ(report.version.number, 4u);
  EXPECT_EQ(world.wrong(*rollout, 4), 0u);
}

TEST_P(Session, AReaderThatNeverWinsIsStarvedAndItsMemoryTorn) {
  World world(GetParam());
  auto trainers = world.train(rows_of(world.table, 1));
  ASSERT_TRUE(trainers.ok()) << trainers.status().to_string();
  std::atomic<uint64_t> next = 2;
  ReceiverOptions options;
  options.on_event = [&](const PullEvent& event) {
    if (event.kind == PullEvent::Kind::kFirstBytes) world.publish(*trainers, next++);
  };
  auto rollout = world.roll_out(whole(world.table), options);
  ASSERT_TRUE(rollout.ok());
  world.publish(*trainers, 1);
  PullReport report;
  const Status status = rollout->receiver->pull(kLatest, within(milliseconds(300)), &report);
  EXPECT_EQ(status.code(), Code::kStarved) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("snapshots"));
  EXPECT_EQ(report.memory, MemoryState::kTorn);
  EXPECT_GE(report.torn, 1u);
}

// The slot that is being read is overwritten: the reader notices and takes the newest.
TEST_P(Session, OverwrittenSnapshotSlotsAreNoticed) {
  World world(GetParam());
  auto trainers = world.train(rows_of(world.table, 2), PublishMode::kSnapshot, 2);
  ASSERT_TRUE(trainers.ok()) << trainers.status().to_string();
  bool overwritten = false;
  ReceiverOptions options;
  options.on_event = [&](const PullEvent& event) {
    if (event.kind != PullEvent::Kind::kFirstBytes || overwritten) return;
    overwritten = true;
    world.publish(*trainers, 2);
    world.publish(*trainers, 3);
  };
  auto rollout = world.roll_out(whole(world.table), options);
  ASSERT_TRUE(rollout.ok());
  world.publish(*trainers, 1);
  PullReport report;
  const Status status = rollout->receiver->pull(kLatest, soon(), &report);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(report.torn, 1u);
  EXPECT_EQ(report.version.number, 3u);
  EXPECT_EQ(world.wrong(*rollout, 3), 0u);
}

// One more version in the other slot does not disturb a reader of a snapshot.
TEST_P(Session, ASnapshotOutlivesTheNextUpdate) {
  World world(GetParam());
  auto trainers = world.train(rows_of(world.table, 2), PublishMode::kSnapshot, 2);
  ASSERT_TRUE(trainers.ok());
  bool updated = false;
  ReceiverOptions options;
  options.on_event = [&](const PullEvent& event) {
    if (event.kind != PullEvent::Kind::kFirstBytes || updated) return;
    updated = true;
    world.publish(*trainers, 2);
  };
  auto rollout = world.roll_out(whole(world.table), options);
  ASSERT_TRUE(rollout.ok());
  world.publish(*trainers, 1);
  PullReport report;
  ASSERT_TRUE(rollout->receiver->pull(kLatest, soon(), &report).ok());
  EXPECT_EQ(report.version.number, 1u);
  EXPECT_EQ(report.torn, 0u);
  EXPECT_EQ(world.wrong(*rollout, 1), 0u);
}

TEST_P(Session, StagingKeepsTheLiveBuffersUntilInstall) {
  World world(GetParam());
  auto trainers = world.train(rows_of(world.table, 2));
  ASSERT_TRUE(trainers.ok());
  // Behind the first buffer's piece: padding, a buffer of the engine's, and a computed one.
  WorkerLayout layout = cut_columns(world.table, 0, 2);
  const uint64_t piece = layout.buffers[0].bytes;
  layout.buffers[0].bytes += 48;
  layout.extras.push_back({0, piece, 16, ExtraKind::kZeroFill, "padding"});
  layout.extras.push_back({0, piece + 16, 16, ExtraKind::kUnmapped, "kept"});
  layout.extras.push_back({0, piece + 32, 16, ExtraKind::kComputed, "rotary"});
  ReceiverOptions options;
  options.staging = true;
  auto rollout = world.roll_out(layout, options);
  ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
  PullReport report;
  EXPECT_EQ(rollout->receiver->install(&report).code(), Code::kFailedPrecondition);
  world.publish(*trainers, 1);
  ASSERT_TRUE(rollout->receiver->pull(kLatest, soon(), &report).ok());
  EXPECT_TRUE(report.finalisers.empty());
  const std::byte* const live = rollout->buffers[0].memory->data();
  for (uint64_t i = 0; i < rollout->buffers[0].memory->bytes() && i < piece + 48; ++i)
    ASSERT_EQ(live[i], std::byte{0xa5}) << "the pull has written live byte " << i;
  const Status installed = rollout->receiver->install(&report);
  ASSERT_TRUE(installed.ok()) << installed.to_string();
  EXPECT_EQ(report.version, (Version{1, 1}));
  EXPECT_EQ(report.finalisers, std::vector<std::string>{"rotary"});
  EXPECT_EQ(world.wrong(*rollout, 1), 0u);
  for (uint64_t i = 0; i < 48; ++i)
    EXPECT_EQ(live[piece + i], i < 16 ? std::byte{0} : std::byte{0xa5}) << i;

  // A failed pull takes the staged version away, but leaves the live one.
  world.publish(*trainers, 2);
  ASSERT_TRUE(rollout->receiver->pull(kLatest, soon(), &report).ok());
  EXPECT_EQ(world.wrong(*rollout, 1), 0u);
  ASSERT_TRUE(rollout->receiver->install(&report).ok());
  EXPECT_EQ(world.wrong(*rollout, 2), 0u);
}

TEST(SessionStaging, AFailedPullTakesTheStagedVersionAway) {
  World world(Wire::kFake);
  auto trainers = world.train(rows_of(world.table, 1));
  ASSERT_TRUE(trainers.ok());
  ReceiverOptions options;
  options.staging = true;
  bool close_it = false;
  options.on_event = [&](const PullEvent& event) {
    if (close_it && event.kind == PullEvent::Kind::kFirstBytes) {
      EXPECT_TRUE((*trainers)[0].publisher->close(soon()).ok());
    }
  };
  auto rollout = world.roll_out(whole(world.table), options);
  ASSERT_TRUE(rollout.ok());
  world.publish(*trainers, 1);
  PullReport report;
  ASSERT_TRUE(rollout->receiver->pull(kLatest, soon(), &report).ok());
  close_it = true;
  const Status lost = rollout->receiver->pull(kLatest, within(seconds(10)), &report);
  EXPECT_EQ(lost.code(), Code::kPeerLost) << lost.to_string();
  EXPECT_EQ(report.memory, MemoryState::kTorn);
  EXPECT_EQ(rollout->receiver->install(&report).code(), Code::kFailedPrecondition);
}

TEST(SessionLive, ZeroFillAndFinalisersOfALivePull) {
  World world(Wire::kFake);
  auto trainers = world.train(rows_of(world.table, 1));
  ASSERT_TRUE(trainers.ok());
  WorkerLayout layout = whole(world.table);
  const uint64_t piece = layout.buffers[1].bytes;
  layout.buffers[1].bytes += 32;
  layout.extras.push_back({1, piece, 16, ExtraKind::kZeroFill, "padding"});
  layout.extras.push_back({1, piece + 16, 16, ExtraKind::kComputed, "scales"});
  auto rollout = world.roll_out(layout);
  ASSERT_TRUE(rollout.ok());
  world.publish(*trainers, 1);
  PullReport report;
  ASSERT_TRUE(rollout->receiver->pull(kLatest, soon(), &report).ok());
  EXPECT_EQ(report.finalisers, std::vector<std::string>{"scales"});
  const std::byte* const tail =
      rollout->buffers[1].memory->data() + rollout->buffers[1].offset + piece;
  for (uint64_t i = 0; i < 32; ++i)
    EXPECT_EQ(tail[i], i < 16 ? std::byte{0} : std::byte{0xa5}) << i;
  EXPECT_EQ(rollout->receiver->install(&report).code(), Code::kFailedPrecondition);
}

// Trainers publish as fast as they can while receivers pull: each accepted pull is all of the
// version that it reports, byte for byte.
void race(Wire wire, PublishMode mode, uint64_t seed) {
  World world(wire, seed, 16);
  auto made = world.train(rows_of(world.table, 2), mode, 3);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  auto& trainers = *made;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (Trainer& trainer : trainers) {
    threads.emplace_back([&] {
      for (uint64_t version = 1; !stop; ++version) {
        ASSERT_TRUE(trainer.publisher->begin_update(nullptr).ok());
        fill(world.table, trainer.layout, trainer.buffers, version);
        ASSERT_TRUE(trainer.publisher->publish(version, nullptr).ok());
        // The ranks stay together, and leave a gap that is long enough now and then.
        std::this_thread::sleep_for(std::chrono::microseconds(version % 5 == 0 ? 4000 : 200));
        for (const Trainer& other : trainers)
          while (!stop && other.publisher->stats().version.number < version)
            std::this_thread::yield();
      }
    });
  }
  uint64_t accepted = 0;
  std::vector<std::thread> readers;
  std::mutex mutex;
  for (int64_t part = 0; part < 2; ++part) {
    readers.emplace_back([&, part] {
      ReceiverOptions options;
      options.name = "rollout-" + std::to_string(part);
      options.index = static_cast<uint32_t>(part);
      auto rollout = world.roll_out(cut_columns(world.table, part, 2), options);
      ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
      const Deadline end = within(milliseconds(1200));
      Version last;
      while (!end.expired()) {
        poison(rollout->layout, rollout->buffers);
        PullReport report;
        const Status status = rollout->receiver->pull(kLatest, within(seconds(20)), &report);
        ASSERT_TRUE(status.ok()) << status.to_string();
        ASSERT_EQ(world.wrong(*rollout, report.version.number), 0u)
            << "version " << report.version.number << " after " << report.torn << " torn";
        ASSERT_GE(report.version, last) << "latest went back";
        last = report.version;
        const std::lock_guard lock(mutex);
        ++accepted;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(accepted, 0u);
}

TEST_P(Session, RacingInPlaceUpdatesNeverMixesVersions) {
  race(GetParam(), PublishMode::kInPlace, 11);
}
TEST_P(Session, RacingSnapshotsNeverMixesVersions) { race(GetParam(), PublishMode::kSnapshot, 12); }

// The generation's number and the record's revision are given out a second time.
TEST_P(Session, AStoreThatLostItsRecordsDoesNotMixTwoLives) {
  World world(GetParam());
  auto old = world.train(rows_of(world.table, 2));
  ASSERT_TRUE(old.ok());
  auto rollout = world.roll_out(whole(world.table));
  ASSERT_TRUE(rollout.ok());
  world.publish(*old, 1);
  PullReport report;
  ASSERT_TRUE(rollout->receiver->pull(kLatest, soon(), &report).ok());

  world.lose_store();
  auto fresh = world.train(rows_of(world.table, 2));
  ASSERT_TRUE(fresh.ok()) << fresh.status().to_string();
  for (Trainer& trainer : *fresh) {
    fill(world.table, trainer.layout, trainer.buffers, 5000);
    ASSERT_TRUE(trainer.publisher->publish(900, nullptr).ok());
  }
  for (Trainer& trainer : *old) {
    const Deadline limit = soon();
    Status zombie;
    uint64_t number = 2;
    while (zombie.ok() && !limit.expired()) {
      zombie = trainer.publisher->begin_update(nullptr);
      if (zombie.ok()) zombie = trainer.publisher->publish(number++, nullptr);
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_EQ(zombie.code(), Code::kGenerationChanged) << zombie.to_string();
  }
  ASSERT_TRUE(rollout->receiver->pull(exactly(900), soon(), &report).ok());
  EXPECT_EQ(world.wrong(*rollout, 5000), 0u);
}

// The store's revisions start again below what the receiver has seen.
TEST_P(Session, SetsAfterAStoreThatCountsAnewAreFollowed) {
  World world(GetParam());
  for (int i = 0; i < 30; ++i) {
    auto passing = world.roll_out(whole(world.table));
    ASSERT_TRUE(passing.ok() && passing->receiver->close(soon()).ok());
  }
  auto old = world.train({whole(world.table)});
  ASSERT_TRUE(old.ok());
  world.publish(*old, 1);
  auto rollout = world.roll_out(whole(world.table));
  ASSERT_TRUE(rollout.ok());
  ASSERT_TRUE(rollout->receiver->pull(kLatest, soon(), nullptr).ok());

  world.lose_store();
  ASSERT_TRUE((*old)[0].publisher->rejoin(soon()).ok());
  std::this_thread::sleep_for(milliseconds(2500));  // until the watch has found the store again
  world.publish(*old, 2);
  ASSERT_TRUE(rollout->receiver->pull(exactly(2), soon(), nullptr).ok());
  old->clear();
  auto fresh = world.train({whole(world.table)});
  ASSERT_TRUE(fresh.ok()) << fresh.status().to_string();
  world.publish(*fresh, 3);
  // A pull that begins before the watch has told of the new set ends with its lost source.
  const Deadline limit = soon();
  Status pulled;
  do {
    pulled = rollout->receiver->pull(exactly(3), soon(), nullptr);
  } while (pulled.code() == Code::kPeerLost && !limit.expired());
  EXPECT_TRUE(pulled.ok()) << pulled.to_string();
  EXPECT_EQ(world.wrong(*rollout, 3), 0u);
}

TEST_P(Session, RestartedTrainersAreANewGeneration) {
  World world(GetParam());
  auto old = world.train(rows_of(world.table, 2));
  ASSERT_TRUE(old.ok());
  auto rollout = world.roll_out(whole(world.table));
  ASSERT_TRUE(rollout.ok());
  world.publish(*old, 101);
  PullReport report;
  ASSERT_TRUE(rollout->receiver->pull(kLatest, soon(), &report).ok());
  EXPECT_EQ(report.version, (Version{1, 101}));

  auto fresh = world.train(rows_of(world.table, 2));
  ASSERT_TRUE(fresh.ok()) << fresh.status().to_string();
  for (Trainer& trainer : *fresh) {
    fill(world.table, trainer.layout, trainer.buffers, 5000);
    ASSERT_TRUE(trainer.publisher->publish(101, nullptr).ok());
  }
  // The zombies are told, and their number 102 is never pulled.
  for (Trainer& trainer : *old) {
    const Deadline limit = soon();
    Status zombie;
    uint64_t number = 102;
    while (zombie.ok() && !limit.expired()) {
      zombie = trainer.publisher->begin_update(nullptr);
      fill(world.table, trainer.layout, trainer.buffers, number);
      if (zombie.ok()) zombie = trainer.publisher->publish(number++, nullptr);
    }
    EXPECT_EQ(zombie.code(), Code::kGenerationChanged) << zombie.to_string();
  }
  const Deadline limit = soon();
  do {
    const Status status = rollout->receiver->pull(kLatest, within(seconds(20)), &report);
    ASSERT_TRUE(status.ok()) << status.to_string();
  } while (report.version.generation == 1 && !limit.expired());
  EXPECT_EQ(report.version.number, 101u);
  EXPECT_GT(report.version.generation, 1u);
  EXPECT_EQ(world.wrong(*rollout, 5000), 0u);

  // One old rank comes back: it forms the next generation, and rank 1 follows.
  const uint64_t before = report.version.generation;
  std::thread other([&] { EXPECT_TRUE((*old)[1].publisher->rejoin(soon()).ok()); });
  const Status rejoined = (*old)[0].publisher->rejoin(soon());
  other.join();
  ASSERT_TRUE(rejoined.ok()) << rejoined.to_string();
  for (Trainer& trainer : *old) {
    fill(world.table, trainer.layout, trainer.buffers, 7);
    const Status status = trainer.publisher->publish(7, nullptr);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }
  const Deadline again = soon();
  do {
    const Status status = rollout->receiver->pull(kLatest, within(seconds(20)), &report);
    ASSERT_TRUE(status.ok()) << status.to_string();
  } while (report.version.generation <= before && !again.expired());
  EXPECT_EQ(report.version.number, 7u);
  EXPECT_EQ(world.wrong(*rollout, 7), 0u);
}

TEST_P(Session, APublisherThatClosesMidPullIsLost) {
  World world(GetParam());
  auto trainers = world.train(rows_of(world.table, 2));
  ASSERT_TRUE(trainers.ok());
  bool lost_event = false;
  ReceiverOptions options;
  options.on_event = [&](const PullEvent& event) {
    if (event.kind == PullEvent::Kind::kFirstBytes && event.source == "trainer-1") {
      EXPECT_TRUE((*trainers)[1].publisher->close(soon()).ok());
    }
    if (event.kind == PullEvent::Kind::kSourceLost) lost_event = event.source == "trainer-1";
  };
  auto rollout = world.roll_out(whole(world.table), options);
  ASSERT_TRUE(rollout.ok());
  world.publish(*trainers, 1);
  PullReport report;
  const Status status = rollout->receiver->pull(kLatest, within(seconds(20)), &report);
  EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("trainer-1"));
  EXPECT_EQ(status.facts().peer, "trainer-1");
  EXPECT_FALSE(status.facts().tensor.empty());
  EXPECT_EQ(report.memory, MemoryState::kTorn);
  EXPECT_TRUE(lost_event);
}

TEST_P(Session, AReplicaTakesOverWithinTheSamePull) {
  World world(GetParam());
  std::vector<WorkerLayout> layouts = rows_of(world.table, 2);
  layouts.push_back(layouts[0]);
  layouts.push_back(layouts[1]);
  auto trainers = world.train(layouts);
  ASSERT_TRUE(trainers.ok());
  std::vector<std::string> lost;
  bool closed = false;
  ReceiverOptions options;
  options.on_event = [&](const PullEvent& event) {
    if (event.kind == PullEvent::Kind::kSourceLost) lost.push_back(event.source);
    if (event.kind != PullEvent::Kind::kFirstBytes || closed) return;
    closed = true;
    const auto rank = static_cast<size_t>(std::stoi(event.source.substr(8)));
    EXPECT_TRUE((*trainers)[rank].publisher->close(soon()).ok());
  };
  auto rollout = world.roll_out(whole(world.table), options);
  ASSERT_TRUE(rollout.ok());
  world.publish(*trainers, 3);
  PullReport report;
  const Status status = rollout->receiver->pull(kLatest, soon(), &report);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(lost.size(), 1u);
  EXPECT_EQ(report.memory, MemoryState::kComplete);
  EXPECT_EQ(world.wrong(*rollout, 3), 0u);
  // The next pull finds the same sources again, without the lost one.
  const Status next = rollout->receiver->pull(kLatest, soon(), &report);
  EXPECT_TRUE(next.ok()) << next.to_string();
}

TEST_P(Session, OtherTensorTablesAreAMismatch) {
  World world(GetParam());
  auto trainers = world.train(rows_of(world.table, 1));
  ASSERT_TRUE(trainers.ok());
  world.publish(*trainers, 1);
  const TensorTable other = make_table(9);
  const WorkerLayout layout = whole(other);
  auto buffers = bind_new_memory(layout, MemoryKind::kHost, {});
  ASSERT_TRUE(buffers.ok());
  ReceiverOptions options;
  options.name = "rollout-0";
  auto receiver = Receiver::create(world.open_job(), other, layout, *buffers, options, soon());
  ASSERT_TRUE(receiver.ok());
  PullReport report;
  const Status status = (*receiver)->pull(kLatest, within(seconds(20)), &report);
  EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("trainer-0"));
  EXPECT_EQ(report.memory, MemoryState::kUntouched);
}

TEST_P(Session, BytesThatNoSourceHoldsAreNamed) {
  World world(GetParam());
  WorkerLayout part = whole(world.table);
  std::erase_if(part.pieces, [](const Piece& piece) { return piece.tensor == 2; });
  auto trainers = world.train({part});
  ASSERT_TRUE(trainers.ok());
  world.publish(*trainers, 1);
  auto rollout = world.roll_out(whole(world.table));
  ASSERT_TRUE(rollout.ok());
  PullReport report;
  const Status status = rollout->receiver->pull(kLatest, within(seconds(20)), &report);
  EXPECT_EQ(status.code(), Code::kNotCovered) << status.to_string();
  EXPECT_EQ(status.facts().tensor, world.table[2].name);
}

TEST_P(Session, ConnectedReceiversDoNotNeedTheStore) {
  World world(GetParam());
  auto trainers = world.train(rows_of(world.table, 2));
  ASSERT_TRUE(trainers.ok());
  auto rollout = world.roll_out(whole(world.table));
  ASSERT_TRUE(rollout.ok());
  auto late = world.roll_out(whole(world.table));
  ASSERT_TRUE(late.ok());
  world.publish(*trainers, 1);
  PullReport report;
  ASSERT_TRUE(rollout->receiver->pull(kLatest, soon(), &report).ok());
  ASSERT_TRUE(world.store_job()->close(soon()).ok());
  world.publish(*trainers, 2);
  const Status status = rollout->receiver->pull(kLatest, soon(), &report);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(world.wrong(*rollout, 2), 0u);
  // Who has not found its sources yet is told that the store is gone.
  const Status lost = late->receiver->pull(kLatest, within(milliseconds(700)), &report);
  EXPECT_FALSE(lost.ok());
  EXPECT_TRUE(lost.code() == Code::kUnavailable || lost.code() == Code::kDeadline)
      << lost.to_string();
}

TEST_P(Session, CloseEndsAWaitingPull) {
  World world(GetParam());
  auto trainers = world.train(rows_of(world.table, 1));
  ASSERT_TRUE(trainers.ok());
  std::atomic<bool> waiting = false;
  ReceiverOptions options;
  options.on_event = [&](const PullEvent& event) {
    if (event.kind == PullEvent::Kind::kStepBegin && event.step == PullStep::kWait) waiting = true;
  };
  auto rollout = world.roll_out(whole(world.table), options);
  ASSERT_TRUE(rollout.ok());
  std::thread puller([&] {
    const Status status = rollout->receiver->pull(kLatest, soon(), nullptr);
    EXPECT_EQ(status.code(), Code::kCancelled) << status.to_string();
  });
  while (!waiting) std::this_thread::yield();
  EXPECT_TRUE(rollout->receiver->close(soon()).ok());
  puller.join();
  EXPECT_EQ(rollout->receiver->pull(kLatest, soon(), nullptr).code(), Code::kCancelled);
}

TEST_P(Session, ReportsSayWhatWasChosen) {
  World world(GetParam());
  auto trainers = world.train(rows_of(world.table, 2), PublishMode::kSnapshot, 2);
  ASSERT_TRUE(trainers.ok());
  auto rollout = world.roll_out(whole(world.table));
  ASSERT_TRUE(rollout.ok());
  world.publish(*trainers, 1);
  ASSERT_TRUE(rollout->receiver->pull(kLatest, soon(), nullptr).ok());
  const auto publisher = nlohmann::json::parse((*trainers)[1].publisher->report());
  EXPECT_EQ(publisher["worker"], "trainer-1");
  EXPECT_EQ(publisher["mode"], "snapshot");
  EXPECT_EQ(publisher["slots"], 2);
  EXPECT_EQ(publisher["memory"].size(), 2u);
  EXPECT_EQ(publisher["generation"], 1);
  const auto receiver = nlohmann::json::parse(rollout->receiver->report());
  ASSERT_EQ(receiver["sources"].size(), 2u);
  EXPECT_FALSE(receiver["sources"][0]["reason"].get<std::string>().empty());
  EXPECT_EQ(receiver["plan"]["bytes"], rollout->layout.piece_bytes(world.table));
}

}  // namespace
}  // namespace wb::testing
