// Receivers that know of each other share the sources evenly.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/membership.h"
#include "session/job_internal.h"
#include "world.h"

namespace wb::testing {
namespace {

constexpr Want kLatest{Want::Kind::kLatest, 0};

// Pulls once with each receiver, checks its bytes, and adds up what was read from each source.
std::map<std::string, uint64_t> pull_all(const World& world, std::vector<Rollout>& rollouts,
                                         uint64_t version) {
  std::map<std::string, uint64_t> load;
  for (Rollout& rollout : rollouts) {
    poison(rollout.layout, rollout.buffers);
    PullReport report;
    const Status pulled = rollout.receiver->pull(kLatest, soon(), &report);
    EXPECT_TRUE(pulled.ok()) << pulled.to_string();
    EXPECT_EQ(world.wrong(rollout, version), 0u);
    for (const SourceReport& source : report.sources) load[source.worker] += source.bytes;
  }
  return load;
}

// Where no cut is smaller than a row, the loads differ by no more than a few rows or, below the
// unit of cutting, by pieces that are placed whole.
void expect_even(const std::map<std::string, uint64_t>& load, size_t sources, uint64_t slack) {
  ASSERT_EQ(load.size(), sources);
  uint64_t least = UINT64_MAX, most = 0;
  for (const auto& [name, bytes] : load) {
    least = std::min(least, bytes);
    most = std::max(most, bytes);
  }
  EXPECT_LE(most - least, slack);
}

// Until every receiver's plan is for so many: each sees the others a moment after they came.
bool settle(const World& world, std::vector<Rollout>& rollouts, size_t receivers,
            uint64_t version) {
  const std::string wanted = "\"receivers\":" + std::to_string(receivers);
  const Deadline deadline = soon();
  while (true) {
    pull_all(world, rollouts, version);
    const bool all_know = std::all_of(rollouts.begin(), rollouts.end(), [&](const Rollout& r) {
      return r.receiver->report().find(wanted) != std::string::npos;
    });
    if (all_know || deadline.expired()) return all_know;
  }
}

TEST(SessionBalance, ReceiversUseReplicasEvenlyAndFollowEachOther) {
  constexpr uint64_t kSlack = 3 * (64u << 10);
  World world(World::Wire::kFake, 1, 2048);
  const WorkerLayout all = whole(world.table);
  auto trainers = world.train({all, all, all});
  ASSERT_TRUE(trainers.ok()) << trainers.status().to_string();
  world.publish(*trainers, 1);
  std::vector<Rollout> rollouts;
  const auto join = [&](const std::string& name) {
    ReceiverOptions options;
    options.name = name;
    auto rollout = world.roll_out(all, std::move(options));
    ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
    rollouts.push_back(std::move(*rollout));
  };
  for (const char* name : {"a", "b", "c", "d"}) join(name);
  const uint64_t bytes = all.piece_bytes(world.table);

  ASSERT_TRUE(settle(world, rollouts, 4, 1)) << rollouts[0].receiver->report();
  auto load = pull_all(world, rollouts, 1);
  expect_even(load, 3, kSlack);
  uint64_t sum = 0;
  for (const auto& [name, part] : load) sum += part;
  EXPECT_EQ(sum, 4 * bytes);

  // One leaves, and one comes in its place.
  ASSERT_TRUE(rollouts.back().receiver->close(soon()).ok());
  rollouts.pop_back();
  ASSERT_TRUE(settle(world, rollouts, 3, 1)) << rollouts[0].receiver->report();
  expect_even(pull_all(world, rollouts, 1), 3, kSlack);
  join("e");
  world.publish(*trainers, 2);
  ASSERT_TRUE(settle(world, rollouts, 4, 2)) << rollouts[0].receiver->report();
  expect_even(pull_all(world, rollouts, 2), 3, kSlack);
}

// A fellow that needs what nobody holds is in trouble alone; the others share as before.
TEST(SessionBalance, AFellowWithoutSourcesStopsNobodyElse) {
  World world(World::Wire::kFake, 1, 2048);
  const WorkerLayout half = cut_rows(world.table, 0, 2);
  auto trainers = world.train({half, half});
  ASSERT_TRUE(trainers.ok()) << trainers.status().to_string();
  world.publish(*trainers, 1);
  const auto join = [&](const std::string& name, const WorkerLayout& layout) {
    ReceiverOptions options;
    options.name = name;
    auto rollout = world.roll_out(layout, std::move(options));
    EXPECT_TRUE(rollout.ok()) << rollout.status().to_string();
    return std::move(*rollout);
  };
  const Rollout starved = join("starved", whole(world.table));
  std::vector<Rollout> served;
  served.push_back(join("a", half));
  served.push_back(join("b", half));
  const Status status = starved.receiver->pull(kLatest, soon(), nullptr);
  EXPECT_EQ(status.code(), Code::kNotCovered) << status.to_string();
  ASSERT_TRUE(settle(world, served, 2, 1)) << served[0].receiver->report();
  expect_even(pull_all(world, served, 1), 2, 3 * (64u << 10));
}

// Takes connections and never answers.
class Mute {
 public:
  Mute() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    endpoint_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  ~Mute() { ::close(listener_); }
  const std::string& endpoint() const { return endpoint_; }
  // Connections since the last call.
  int asked() {
    int count = 0;
    for (int fd = ::accept(listener_, nullptr, nullptr); fd >= 0;
         fd = ::accept(listener_, nullptr, nullptr), ++count) {
      ::close(fd);
    }
    return count;
  }

 private:
  int listener_ = -1;
  std::string endpoint_;
};

// The record of a receiver whose process hangs.
std::unique_ptr<Registration> enlist(const World& world, const std::string& name,
                                     const Digest& incarnation, const std::string& endpoint) {
  const auto job = *internal(world.store_job());
  WorkerRecord record;
  record.worker = name;
  record.incarnation = incarnation;
  record.endpoint = endpoint;
  record.manifest = random_id();
  const std::string key = receiver_prefix(job->options().name) + incarnation.hex();
  auto registration = Registration::start(job->store(), key, record, 60, soon());
  EXPECT_TRUE(registration.ok()) << registration.status().to_string();
  return std::move(*registration);
}

// A fellow that hangs costs one wait, not one at each pull and each join.
TEST(SessionBalance, AFellowThatDoesNotAnswerIsNotAskedAgainAtOnce) {
  World world(World::Wire::kFake);
  const WorkerLayout all = whole(world.table);
  auto trainers = world.train({all, all});
  ASSERT_TRUE(trainers.ok());
  world.publish(*trainers, 1);
  Mute mute;
  const auto hung = enlist(world, "hung", random_id(), mute.endpoint());
  std::vector<Rollout> first, others;
  const auto join = [&](const std::string& name, std::vector<Rollout>* to) {
    ReceiverOptions options;
    options.name = name;
    auto rollout = world.roll_out(all, std::move(options));
    ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
    to->push_back(std::move(*rollout));
  };
  join("first", &first);
  pull_all(world, first, 1);
  ASSERT_GT(mute.asked(), 0);
  for (size_t i = 0; i < 3; ++i) {
    join("other-" + std::to_string(i), &others);
    ASSERT_TRUE(settle(world, first, i + 2, 1)) << first[0].receiver->report();
    EXPECT_EQ(mute.asked(), 0);
  }
}

// Of two lives of one worker the later one counts, whatever their random names.
TEST(SessionBalance, AWorkerThatWasStartedAgainIsKnownByItsLaterLife) {
  for (const bool last : {false, true}) {
    World world(World::Wire::kFake);
    const WorkerLayout all = whole(world.table);
    auto trainers = world.train({all, all});
    ASSERT_TRUE(trainers.ok());
    world.publish(*trainers, 1);
    Mute mute;
    const Digest name = last ? Digest{~uint64_t{0}, ~uint64_t{0}} : Digest{1, 0};
    const auto dead = enlist(world, "again", name, mute.endpoint());
    std::vector<Rollout> rollouts;
    for (const char* who : {"again", "other"}) {
      ReceiverOptions options;
      options.name = who;
      auto rollout = world.roll_out(all, std::move(options));
      ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
      rollouts.push_back(std::move(*rollout));
    }
    EXPECT_TRUE(settle(world, rollouts, 2, 1)) << rollouts[1].receiver->report();
    EXPECT_EQ(mute.asked(), 0);
  }
}

// Names are meant to be unique; two that are the same cost balance and nothing else.
TEST(SessionBalance, ReceiversOfOneNameStillPullEveryByte) {
  World world(World::Wire::kFake);
  const WorkerLayout all = whole(world.table);
  auto trainers = world.train({all, all});
  ASSERT_TRUE(trainers.ok());
  world.publish(*trainers, 1);
  std::vector<Rollout> rollouts;
  for (int i = 0; i < 3; ++i) {
    ReceiverOptions options;
    options.name = i == 2 ? "other" : "same";
    auto rollout = world.roll_out(all, std::move(options));
    ASSERT_TRUE(rollout.ok()) << rollout.status().to_string();
    rollouts.push_back(std::move(*rollout));
  }
  pull_all(world, rollouts, 1);
  world.publish(*trainers, 2);
  pull_all(world, rollouts, 2);
}

}  // namespace
}  // namespace wb::testing
