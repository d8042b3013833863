#include "control/membership.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "backends.h"

namespace wb {
namespace {

using test::Backend;
using test::milliseconds;
using test::seconds;
using test::soon;

class Membership : public test::StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    if (store_ == nullptr) return;
    client_ = store_->client();
    ASSERT_NE(client_, nullptr);
  }
  Formation join(uint32_t rank, uint32_t world, const Digest& who) {
    const auto formation = join_formation(*client_, "job", rank, world, who, soon());
    EXPECT_TRUE(formation.ok()) << formation.status().to_string();
    return formation.ok() ? *formation : Formation{};
  }
  Result<Formation> wait(uint32_t rank, uint32_t world, const Digest& who, bool rejoin,
                         Deadline deadline = soon()) {
    return wait_formation(*client_, "job", rank, world, who, rejoin, deadline);
  }
  std::shared_ptr<StoreClient> client_;
};

std::vector<Digest> incarnations(size_t count) {
  std::vector<Digest> ids;
  for (size_t i = 0; i < count; ++i) ids.push_back(random_id());
  return ids;
}

TEST_P(Membership, ConcurrentJoinsFormOneGeneration) {
  constexpr uint32_t kWorld = 12;
  const auto ids = incarnations(kWorld);
  std::vector<Result<Formation>> results(kWorld, Status(Code::kInternal, "not run"));
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    threads.emplace_back([&, rank] {
      const auto joined = join_formation(*client_, "job", rank, kWorld, ids[rank], soon());
      results[rank] = joined.ok() ? wait(rank, kWorld, ids[rank], false) : joined;
    });
  }
  for (auto& thread : threads) thread.join();
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    ASSERT_TRUE(results[rank].ok()) << results[rank].status().to_string();
    EXPECT_EQ(results[rank]->generation, 1u);
    EXPECT_EQ(results[rank]->members, ids);
    EXPECT_EQ(results[rank]->revision, results[0]->revision);
  }
}

TEST_P(Membership, JoiningTwiceIsJoiningOnce) {
  const Digest who = random_id();
  const Formation first = join(0, 2, who);
  const Formation second = join(0, 2, who);
  EXPECT_EQ(first.revision, second.revision);
  EXPECT_EQ(first.generation, second.generation);
  EXPECT_FALSE(first.complete());
}

TEST_P(Membership, ARestartOfOneRankOpensAGenerationThatSurvivorsJoin) {
  const auto ids = incarnations(3);
  for (uint32_t rank = 0; rank < 3; ++rank) join(rank, 3, ids[rank]);
  const Digest reborn = random_id();
  const Formation opened = join(1, 3, reborn);
  EXPECT_EQ(opened.generation, 2u);
  EXPECT_EQ(opened.members, (std::vector<Digest>{{}, reborn, {}}));
  EXPECT_EQ(wait(0, 3, ids[0], false).status().code(), Code::kGenerationChanged);
  Result<Formation> zero = Status(Code::kInternal, "not run");
  std::thread survivor([&] { zero = wait(0, 3, ids[0], true); });
  const auto two = wait(2, 3, ids[2], true);
  survivor.join();
  ASSERT_TRUE(two.ok()) << two.status().to_string();
  ASSERT_TRUE(zero.ok()) << zero.status().to_string();
  EXPECT_EQ(two->generation, 2u);
  EXPECT_EQ(two->members, (std::vector<Digest>{ids[0], reborn, ids[2]}));
}

TEST_P(Membership, ARestartOfAllFormsTheNextGeneration) {
  const auto old = incarnations(2);
  for (uint32_t rank = 0; rank < 2; ++rank) join(rank, 2, old[rank]);
  const auto fresh = incarnations(2);
  join(1, 2, fresh[1]);
  const Formation formed = join(0, 2, fresh[0]);
  EXPECT_EQ(formed.generation, 2u);
  EXPECT_TRUE(formed.complete());
  EXPECT_EQ(formed.members, fresh);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(wait(rank, 2, old[rank], false).status().code(), Code::kGenerationChanged)
        << "a zombie is told, and is not in the record";
  }
  EXPECT_EQ(read_formation(*client_, "job", soon())->members, fresh);
}

TEST_P(Membership, AnotherWorldIsAnotherGeneration) {
  const auto ids = incarnations(4);
  for (uint32_t rank = 0; rank < 4; ++rank) join(rank, 4, ids[rank]);
  const auto fewer = incarnations(2);
  EXPECT_EQ(join(0, 2, fewer[0]).generation, 2u);
  const Formation formed = join(1, 2, fewer[1]);
  EXPECT_EQ(formed.generation, 2u);
  EXPECT_TRUE(formed.complete());
}

TEST_P(Membership, ARankThatGaveUpIsFree) {
  const Digest gone = random_id();
  const Digest other = random_id();
  join(0, 2, gone);
  ASSERT_TRUE(leave_formation(*client_, "job", 0, 2, gone, soon()).ok());
  EXPECT_FALSE(join(1, 2, other).complete());
  ASSERT_TRUE(leave_formation(*client_, "job", 0, 2, gone, soon()).ok()) << "twice is once";
  const Formation formed = join(0, 2, random_id());
  EXPECT_TRUE(formed.complete());
  EXPECT_EQ(formed.generation, 1u);
  ASSERT_TRUE(leave_formation(*client_, "job", 0, 2, gone, soon()).ok());
  EXPECT_TRUE(read_formation(*client_, "job", soon())->complete()) << "the rank is another's";
}

TEST_P(Membership, AnotherWorldIsRefusedWhileTheRunningOneLives) {
  const auto ids = incarnations(2);
  for (uint32_t rank = 0; rank < 2; ++rank) join(rank, 2, ids[rank]);
  WorkerRecord record;
  record.worker = "trainer-0";
  record.incarnation = ids[0];
  record.endpoint = "127.0.0.1:1";
  const auto living =
      Registration::start(client_, source_prefix("job") + "0/" + ids[0].hex(), record, 5, soon());
  ASSERT_TRUE(living.ok()) << living.status().to_string();
  const auto refused =
      join_formation(*client_, "job", 1, 4, random_id(), Deadline::after(milliseconds(700)));
  EXPECT_EQ(refused.status().code(), Code::kMismatch) << refused.status().to_string();
  EXPECT_EQ(refused.status().facts().peer, "trainer-0");
  EXPECT_EQ(read_formation(*client_, "job", soon())->members, ids)
      << "the running job is as it was";
  ASSERT_TRUE((*living)->close(soon()).ok());
  EXPECT_EQ(join(1, 4, random_id()).generation, 2u);
}

TEST_P(Membership, WaitingEndsByTheDeadlineAndNamesTheMissing) {
  const Digest who = random_id();
  join(1, 3, who);
  const Status status = wait(1, 3, who, true, Deadline::after(milliseconds(300))).status();
  EXPECT_EQ(status.code(), Code::kDeadline);
  EXPECT_NE(status.message().find("waits for 2 of 3 ranks: 0, 2"), std::string::npos)
      << status.message();
}

TEST_P(Membership, RecordsThatAreNoneAreRefused) {
  EXPECT_EQ(read_formation(*client_, "job", soon()).status().code(), Code::kNotFound);
  for (const char* text : {"", "x", "{}", R"({"version":2,"generation":1,"members":[""]})",
                           R"({"version":1,"generation":0,"members":[""]})",
                           R"({"version":1,"generation":1,"members":[]})",
                           R"({"version":1,"generation":1,"members":["zz"]})",
                           R"({"version":1,"generation":1,"members":[5]})"}) {
    ASSERT_TRUE(client_->put(formation_key("job"), text, 0, soon()).ok());
    EXPECT_EQ(read_formation(*client_, "job", soon()).status().code(), Code::kBadData) << text;
    EXPECT_EQ(join_formation(*client_, "job", 0, 1, random_id(), soon()).status().code(),
              Code::kBadData);
  }
}

TEST_P(Membership, WordsOfTheCallerAreChecked) {
  const Digest who = random_id();
  for (const std::string& job : {std::string(), std::string("a/b"), std::string(129, 'a')}) {
    EXPECT_EQ(join_formation(*client_, job, 0, 1, who, soon()).status().code(),
              Code::kInvalidArgument);
  }
  EXPECT_EQ(join_formation(*client_, "job", 1, 1, who, soon()).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(join_formation(*client_, "job", 0, 1, Digest{}, soon()).status().code(),
            Code::kInvalidArgument);
}

WorkerRecord record(const Digest& incarnation) {
  return {"trainer-3", 3, incarnation, "127.0.0.1:4000", random_id()};
}

TEST_P(Membership, RecordsThatAreNoneHideNoOtherWorker) {
  const std::string prefix = source_prefix("job");
  const WorkerRecord mine = record(random_id());
  auto registration = Registration::start(client_, prefix + "3", mine, 2, soon());
  ASSERT_TRUE(registration.ok()) << registration.status().to_string();
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::vector<std::string> texts = {"", "x", R"({"version":1})",
                                          R"({"version":2,"rank":"0"})",
                                          R"({"version":1,"x":)" + deep + "}"};
  for (const std::string& text : texts) {
    // Before and behind the good one.
    for (const char* rank : {"0", "4"}) {
      ASSERT_TRUE(client_->put(prefix + rank, text, 0, soon()).ok());
    }
    const auto workers = read_workers(*client_, prefix, soon());
    ASSERT_TRUE(workers.ok()) << workers.status().to_string();
    ASSERT_EQ(workers->size(), 1u) << text.substr(0, 80);
    EXPECT_EQ((*workers)[0].incarnation, mine.incarnation);
  }
}

TEST_P(Membership, ARegistrationLivesPastItsTtlAndGoesWithClose) {
  const WorkerRecord mine = record(random_id());
  const std::string key = source_prefix("job") + "3";
  auto registration = Registration::start(client_, key, mine, 2, soon());
  ASSERT_TRUE(registration.ok()) << registration.status().to_string();
  std::this_thread::sleep_for(seconds(4));
  EXPECT_TRUE((*registration)->healthy().ok()) << (*registration)->healthy().to_string();
  const auto workers = read_workers(*client_, source_prefix("job"), soon());
  ASSERT_TRUE(workers.ok()) << workers.status().to_string();
  ASSERT_EQ(workers->size(), 1u);
  EXPECT_EQ((*workers)[0].worker, mine.worker);
  EXPECT_EQ((*workers)[0].rank, mine.rank);
  EXPECT_EQ((*workers)[0].incarnation, mine.incarnation);
  EXPECT_EQ((*workers)[0].endpoint, mine.endpoint);
  EXPECT_EQ((*workers)[0].manifest, mine.manifest);
  EXPECT_TRUE((*registration)->close(soon()).ok());
  EXPECT_FALSE(client_->get(key, soon())->has_value());
  EXPECT_FALSE((*registration)->healthy().ok());
}

TEST_P(Membership, ALostLeaseIsReplacedAndTheKeyPutAgain) {
  const std::string key = source_prefix("job") + "3";
  auto registration = Registration::start(client_, key, record(random_id()), 2, soon());
  ASSERT_TRUE(registration.ok());
  const int64_t lease = (*client_->get(key, soon()))->lease;
  ASSERT_TRUE(client_->lease_revoke(lease, soon()).ok());
  const Deadline deadline = soon();
  int64_t now = 0;
  while (now == 0 && !deadline.expired()) {
    const auto item = client_->get(key, soon());
    ASSERT_TRUE(item.ok());
    if (*item) now = (*item)->lease;
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_NE(now, 0);
  EXPECT_NE(now, lease);
}

TEST_P(Membership, ALaterIncarnationIsNotPushedOut) {
  const std::string key = source_prefix("job") + "3";
  auto old = Registration::start(client_, key, record(random_id()), 2, soon());
  ASSERT_TRUE(old.ok());
  const WorkerRecord reborn = record(random_id());
  auto fresh = Registration::start(client_, key, reborn, 2, soon());
  ASSERT_TRUE(fresh.ok());
  const Deadline deadline = soon();
  while ((*old)->healthy().ok() && !deadline.expired()) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ((*old)->healthy().code(), Code::kBusy);
  EXPECT_TRUE((*old)->close(soon()).ok());
  const auto workers = read_workers(*client_, source_prefix("job"), soon());
  ASSERT_EQ(workers->size(), 1u);
  EXPECT_EQ((*workers)[0].incarnation, reborn.incarnation);
  EXPECT_TRUE((*fresh)->healthy().ok());
}

TEST_P(Membership, AStoreThatIsGoneIsSeenByAll) {
  const Digest who = random_id();
  join(0, 2, who);
  auto registration =
      Registration::start(client_, source_prefix("job") + "0", record(who), 2, soon());
  ASSERT_TRUE(registration.ok());
  store_->stop();
  EXPECT_EQ(wait(0, 2, who, true).status().code(), Code::kUnavailable);
  EXPECT_EQ(join_formation(*client_, "job", 0, 2, random_id(), soon()).status().code(),
            Code::kUnavailable);
  const Deadline deadline = soon();
  while ((*registration)->healthy().ok() && !deadline.expired()) {
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ((*registration)->healthy().code(), Code::kUnavailable);
  EXPECT_EQ((*registration)->close(soon()).code(), Code::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(All, Membership, testing::Values(Backend::kEmbeddedToken, Backend::kEtcd),
                         test::backend_name);

}  // namespace
}  // namespace wb
