// What goes wrong on the wire, and what a pull costs: over the fake wire, which can be told to
// fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "allocation_counter.h"
#include "world.h"

namespace wb::testing {
namespace {

using ::testing::HasSubstr;
using Wire = World::Wire;
const Want kLatest;

struct Pair {
  std::vector<Trainer> trainers;
  Rollout rollout;
};

Pair make_pair(World& world, ReceiverOptions options = {}) {
  Pair pair;
  auto trainers = world.train({cut_rows(world.table, 0, 2), cut_rows(world.table, 1, 2)});
  EXPECT_TRUE(trainers.ok()) << trainers.status().to_string();
  if (trainers.ok()) pair.trainers = std::move(trainers).value();
  auto rollout = world.roll_out(whole(world.table), std::move(options));
  EXPECT_TRUE(rollout.ok()) << rollout.status().to_string();
  if (rollout.ok()) pair.rollout = std::move(rollout).value();
  return pair;
}

TEST(Faults, OneBrokenConnectionIsMadeAgain) {
  World world(Wire::kFake);
  Pair pair = make_pair(world);
  world.publish(pair.trainers, 1);
  PullReport report;
  world.net.fail_after_chunks = 3;
  std::atomic<bool> done = false;
  ASSERT_TRUE(pair.rollout.receiver != nullptr);
  // The wire is mended when it has failed once.
  std::thread mender([&] {
    while (!done && world.net.failures == 0) std::this_thread::yield();
    world.net.fail_after_chunks = -1;
  });
  const Status status = pair.rollout.receiver->pull(kLatest, soon(), &report);
  done = true;
  mender.join();
  if (status.ok()) {
    EXPECT_GE(report.attempts, 2u);
    EXPECT_EQ(world.wrong(pair.rollout, 1), 0u);
  } else {  // the mender came too late
    EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
    EXPECT_EQ(report.memory, MemoryState::kTorn);
  }
  EXPECT_EQ(world.net.active_jobs, 0);
}

TEST(Faults, AWireThatStaysCutIsALostPeer) {
  World world(Wire::kFake);
  Pair pair = make_pair(world);
  world.publish(pair.trainers, 1);
  world.net.fail_after_chunks = 3;
  PullReport report;
  const Status status = pair.rollout.receiver->pull(kLatest, within(seconds(20)), &report);
  EXPECT_EQ(status.code(), Code::kPeerLost) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("the fake wire was cut"));
  EXPECT_EQ(report.memory, MemoryState::kTorn);
  EXPECT_EQ(world.net.active_jobs, 0);
  world.net.fail_after_chunks = -1;
  const Status again = pair.rollout.receiver->pull(kLatest, soon(), &report);
  EXPECT_TRUE(again.ok()) << again.to_string();
  EXPECT_EQ(world.wrong(pair.rollout, 1), 0u);
}

TEST(Faults, TheDeadlineInTheMiddleOfTheReadEndsAllReads) {
  World world(Wire::kFake);
  ReceiverOptions options;
  options.on_event = [&](const PullEvent& event) {
    if (event.kind == PullEvent::Kind::kFirstBytes) std::this_thread::sleep_for(milliseconds(300));
  };
  Pair pair = make_pair(world, options);
  world.publish(pair.trainers, 1);
  world.net.chunks_per_poll = 1;
  PullReport report;
  // The first pull makes the connections without hurry.
  ASSERT_TRUE(pair.rollout.receiver->pull(kLatest, soon(), &report).ok());
  const Status status = pair.rollout.receiver->pull(kLatest, within(milliseconds(200)), &report);
  EXPECT_EQ(status.code(), Code::kDeadline) << status.to_string();
  EXPECT_EQ(report.memory, MemoryState::kTorn);
  EXPECT_EQ(world.net.active_jobs, 0);
}

// Memory that may still be written must not be called anything but torn, nor be posted into again.
TEST(Faults, ReadsThatCannotBeEndedBlockTheNextPull) {
  World world(Wire::kFake);
  std::atomic<bool> slow = false;
  ReceiverOptions options;
  options.on_event = [&](const PullEvent& event) {
    if (slow && event.kind == PullEvent::Kind::kFirstBytes)
      std::this_thread::sleep_for(milliseconds(300));
  };
  Pair pair = make_pair(world, options);
  world.publish(pair.trainers, 1);
  world.net.chunks_per_poll = 1;
  PullReport report;
  ASSERT_TRUE(pair.rollout.receiver->pull(kLatest, soon(), &report).ok());
  slow = true;
  world.net.refuse_abort = true;
  Status status = pair.rollout.receiver->pull(kLatest, within(milliseconds(200)), &report);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("does not flush"));
  EXPECT_EQ(report.memory, MemoryState::kTorn);
  EXPECT_GT(world.net.active_jobs, 0);
  status = pair.rollout.receiver->pull(kLatest, within(milliseconds(0)), &report);
  EXPECT_THAT(status.message(), HasSubstr("earlier pull"));
  EXPECT_EQ(report.memory, MemoryState::kTorn);
  EXPECT_FALSE(pair.rollout.receiver->close(within(milliseconds(10))).ok());
  world.net.refuse_abort = false;
  EXPECT_TRUE(pair.rollout.receiver->close(soon()).ok());
  EXPECT_EQ(world.net.active_jobs, 0);
}

TEST(Faults, NoTransportIsSaidAtOnce) {
  World world(Wire::kFake);
  world.net.refuse_register = true;
  const auto rollout = world.roll_out(whole(world.table));
  EXPECT_EQ(rollout.status().code(), Code::kNoMemory) << rollout.status().to_string();
  const auto trainers = world.train({whole(world.table)});
  EXPECT_EQ(trainers.status().code(), Code::kNoMemory);
  EXPECT_EQ(world.net.regions, 0);
}

TEST(Faults, EverythingIsGivenBack) {
  World world(Wire::kFake);
  {
    Pair pair = make_pair(world);
    world.publish(pair.trainers, 1);
    ASSERT_TRUE(pair.rollout.receiver->pull(kLatest, soon(), nullptr).ok());
    EXPECT_GT(world.net.regions, 0);
    EXPECT_TRUE(pair.rollout.receiver->close(soon()).ok());
    for (Trainer& trainer : pair.trainers) {
      EXPECT_TRUE(trainer.publisher->close(soon()).ok());
      EXPECT_TRUE(trainer.publisher->close(soon()).ok());
      EXPECT_EQ(trainer.publisher->publish(2, nullptr).code(), Code::kCancelled);
    }
  }
  EXPECT_EQ(world.net.regions, 0);
}

TEST(Faults, PublishersRefuseWhatReadersCouldNotTell) {
  World world(Wire::kFake);
  auto trainers = world.train({whole(world.table)});
  ASSERT_TRUE(trainers.ok());
  Publisher& publisher = *(*trainers)[0].publisher;
  EXPECT_TRUE(publisher.publish(5, nullptr).ok()) << "the first update has begun at create()";
  EXPECT_EQ(publisher.publish(6, nullptr).code(), Code::kFailedPrecondition);
  ASSERT_TRUE(publisher.begin_update(nullptr).ok());
  EXPECT_EQ(publisher.publish(5, nullptr).code(), Code::kFailedPrecondition);
  int stream = 0;
  EXPECT_EQ(publisher.begin_update(&stream).code(), Code::kUnsupported);
  EXPECT_EQ(publisher.publish(6, &stream).code(), Code::kUnsupported);
  EXPECT_TRUE(publisher.publish(6, nullptr).ok());
  EXPECT_EQ(publisher.stats().published, 2u);
  EXPECT_EQ(publisher.stats().version, (Version{1, 6}));
}

// Live buffers larger than any machine's memory: address space that is only reserved.
TEST(Faults, AStagingSetThatDoesNotFitIsRefusedAtCreate) {
  constexpr uint64_t kHuge = uint64_t{1} << 41;
  void* const reserved = mmap(nullptr, kHuge, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) GTEST_SKIP() << "this machine does not reserve 2 TiB of addresses";
  {
    World world(Wire::kFake);
    WorkerLayout layout = whole(world.table);
    auto buffers = bind_new_memory(layout, MemoryKind::kHost, {});
    ASSERT_TRUE(buffers.ok());
    layout.buffers.push_back({"huge", DType::kU8, {static_cast<int64_t>(kHuge)}, kHuge});
    auto claimed = Allocation::caller(reserved, kHuge);
    ASSERT_TRUE(claimed.ok()) << claimed.status().to_string();
    buffers->push_back({*claimed, 0});
    ReceiverOptions options;
    options.name = "rollout-0";
    options.staging = true;
    const auto receiver =
        Receiver::create(world.open_job(), world.table, layout, *buffers, options, soon());
    EXPECT_EQ(receiver.status().code(), Code::kNoMemory) << receiver.status().to_string();
    EXPECT_THAT(receiver.status().message(), HasSubstr("staging set of rollout-0"));
    EXPECT_EQ(world.net.regions, 0);
    PublisherOptions snapshots;
    snapshots.mode = PublishMode::kSnapshot;
    const auto publisher =
        Publisher::create(world.open_job(), world.table, layout, *buffers, snapshots, soon());
    EXPECT_EQ(publisher.status().code(), Code::kNoMemory) << publisher.status().to_string();
    EXPECT_THAT(publisher.status().message(), HasSubstr("snapshot slot 1 of 2"));
  }
  munmap(reserved, kHuge);
}

TEST(Faults, ASourceThatMustHelpGetsAThread) {
  World world(Wire::kFake);
  world.net.needs_progress = true;
  Pair pair = make_pair(world);
  world.publish(pair.trainers, 1);
  const Deadline limit = soon();
  while (world.net.progress_calls == 0 && !limit.expired()) std::this_thread::yield();
  EXPECT_GT(world.net.progress_calls, 0u);
  EXPECT_THAT(pair.trainers[0].publisher->report(), HasSubstr("\"source_progress_thread\":true"));
}

// From the post of the first read to the last header: nothing is allocated.
TEST(Cost, ARepeatedPullAllocatesNothingWhileItReads) {
  for (const bool listening : {false, true}) {
    World world(Wire::kFake);
    ReceiverOptions options;
    if (listening) options.on_event = [](const PullEvent&) {};
    std::atomic<uint64_t> at_read = 0;
    std::atomic<uint64_t> at_check = 0;
    if (listening) {
      options.on_event = [&](const PullEvent& event) {
        if (event.step == PullStep::kRead && event.kind == PullEvent::Kind::kStepBegin)
          at_read = counted_allocations();
        if (event.step == PullStep::kCheck && event.kind == PullEvent::Kind::kStepEnd)
          at_check = counted_allocations();
      };
    }
    Pair pair = make_pair(world, options);
    world.publish(pair.trainers, 1);
    PullReport report;
    ASSERT_TRUE(pair.rollout.receiver->pull(kLatest, soon(), &report).ok());
    const uint64_t connections = world.net.connections;
    for (uint64_t version = 2; version < 6; ++version) {
      world.publish(pair.trainers, version);
      count_allocations(true);
      const uint64_t before = counted_allocations();
      const Status status = pair.rollout.receiver->pull(kLatest, soon(), &report);
      const uint64_t total = counted_allocations() - before;
      count_allocations(false);
      ASSERT_TRUE(status.ok()) << status.to_string();
      EXPECT_EQ(at_check, at_read) << "allocations between the first post and the last check";
      EXPECT_LE(total, 64u) << "per pull, whatever its size";
    }
    EXPECT_EQ(world.net.connections, connections) << "nothing is connected again";
  }
}

TEST(Cost, PublishAllocatesNothing) {
  World world(Wire::kFake);
  auto trainers = world.train({whole(world.table)});
  ASSERT_TRUE(trainers.ok());
  Publisher& publisher = *(*trainers)[0].publisher;
  ASSERT_TRUE(publisher.publish(1, nullptr).ok());
  count_allocations(true);
  const uint64_t before = counted_allocations();
  for (uint64_t version = 2; version < 100; ++version) {
    const Status begun = publisher.begin_update(nullptr);
    const Status published = publisher.publish(version, nullptr);
    if (!begun.ok() || !published.ok()) ADD_FAILURE();
  }
  const uint64_t after = counted_allocations();
  count_allocations(false);
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace wb::testing
