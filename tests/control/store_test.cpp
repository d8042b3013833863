// What every store must do, asked of the embedded one and of a real etcd alike.
#include <gtest/gtest.h>

#include <thread>

#include "backends.h"
#include "control/wire.h"

namespace wb {
namespace {

using test::Backend;
using test::soon;
using test::StoreFixture;

class Store : public StoreFixture {
 protected:
  void SetUp() override {
    StoreFixture::SetUp();
    if (store_ == nullptr) return;  // skipped, or failed already
    client_ = store_->client();
    ASSERT_NE(client_, nullptr);
  }
  int64_t put(std::string_view key, std::string_view value, int64_t lease = 0) {
    const auto revision = client_->put(key, value, lease, soon());
    EXPECT_TRUE(revision.ok()) << revision.status().to_string();
    return revision.ok() ? *revision : 0;
  }
  std::shared_ptr<StoreClient> client_;
};

TEST_P(Store, PutGetRemoveAndRevisions) {
  const int64_t first = put("a", "1");
  const int64_t second = put("a", "2");
  EXPECT_EQ(second, first + 1);
  const auto got = client_->get("a", soon());
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  ASSERT_TRUE(got->has_value());
  EXPECT_EQ((*got)->value, "2");
  EXPECT_EQ((*got)->create_revision, first);
  EXPECT_EQ((*got)->mod_revision, second);
  EXPECT_EQ((*got)->lease, 0);
  EXPECT_EQ(*client_->remove("a", soon()), 1);
  EXPECT_EQ(*client_->remove("a", soon()), 0);
  EXPECT_FALSE(client_->get("a", soon())->has_value());
  EXPECT_GT(put("a", "3"), second);
  EXPECT_EQ((*client_->get("a", soon()))->create_revision,
            (*client_->get("a", soon()))->mod_revision);
}

TEST_P(Store, KeysAndValuesAreBytes) {
  std::string every;
  for (int c = 0; c < 256; ++c) every.push_back(static_cast<char>(c));
  for (const std::string& value : {every, std::string(), std::string(1, '\0')}) {
    put(every, value);
    const auto got = client_->get(every, soon());
    ASSERT_TRUE(got.ok());
    ASSERT_TRUE(got->has_value());
    EXPECT_EQ((*got)->value, value);
  }
}

TEST_P(Store, RangeIsThePrefixInOrder) {
  for (const char* key : {"p/2", "p/1", "p", "p0", "o", "q", "p/\xff", "p/\xff\xff"}) put(key, key);
  const auto range = client_->range("p/", soon());
  ASSERT_TRUE(range.ok()) << range.status().to_string();
  std::vector<std::string> keys;
  for (const KeyValue& item : range->items) keys.push_back(item.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"p/1", "p/2", "p/\xff", "p/\xff\xff"}));
  EXPECT_EQ(client_->range("p/\xff", soon())->items.size(), 2u);
  EXPECT_EQ(client_->range("", soon())->items.size(), 8u);
  EXPECT_EQ(client_->range("none", soon())->items.size(), 0u);
  EXPECT_EQ(range->revision, range->items.back().mod_revision);
}

TEST_P(Store, TxnIsAllOrNothing) {
  const auto created = client_->txn(
      {{"x", 0}}, {{TxnOp::Kind::kPut, "x", "1", 0}, {TxnOp::Kind::kPut, "y", "1", 0}}, soon());
  ASSERT_TRUE(created.ok()) << created.status().to_string();
  EXPECT_TRUE(created->succeeded);
  EXPECT_EQ((*client_->get("x", soon()))->mod_revision, created->revision);
  EXPECT_EQ((*client_->get("y", soon()))->mod_revision, created->revision) << "one revision";

  const auto again = client_->txn({{"x", 0}}, {{TxnOp::Kind::kPut, "x", "2", 0}}, soon());
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->succeeded);
  EXPECT_EQ((*client_->get("x", soon()))->value, "1");

  const auto half = client_->txn({{"x", created->revision}, {"y", 1}},
                                 {{TxnOp::Kind::kDelete, "x", "", 0}}, soon());
  ASSERT_TRUE(half.ok());
  EXPECT_FALSE(half->succeeded) << "one compare of two fails";
  const auto both = client_->txn({{"x", created->revision}, {"y", created->revision}},
                                 {{TxnOp::Kind::kDelete, "x", "", 0}}, soon());
  ASSERT_TRUE(both.ok());
  EXPECT_TRUE(both->succeeded);
  EXPECT_FALSE(client_->get("x", soon())->has_value());
}

TEST_P(Store, TxnRefusesTwoWritesOfOneKey) {
  const auto twice = client_->txn(
      {}, {{TxnOp::Kind::kPut, "d", "1", 0}, {TxnOp::Kind::kPut, "d", "2", 0}}, soon());
  EXPECT_EQ(twice.status().code(), Code::kInvalidArgument);
  const auto mixed = client_->txn(
      {}, {{TxnOp::Kind::kPut, "d", "1", 0}, {TxnOp::Kind::kDelete, "d", "", 0}}, soon());
  EXPECT_EQ(mixed.status().code(), Code::kInvalidArgument);
  EXPECT_FALSE(client_->get("d", soon())->has_value());
}

TEST_P(Store, OfConcurrentTxnsOneWinsEachRound) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 20;
  std::atomic<int> wins{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        for (;;) {
          const auto now = client_->get("counter", soon());
          ASSERT_TRUE(now.ok()) << now.status().to_string();
          const int64_t revision = *now ? (*now)->mod_revision : 0;
          const int value = *now ? std::stoi((*now)->value) : 0;
          const auto result =
              client_->txn({{"counter", revision}},
                           {{TxnOp::Kind::kPut, "counter", std::to_string(value + 1), 0}}, soon());
          ASSERT_TRUE(result.ok()) << result.status().to_string();
          if (result->succeeded) break;
        }
        ++wins;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wins.load(), kThreads * kRounds);
  EXPECT_EQ((*client_->get("counter", soon()))->value, std::to_string(kThreads * kRounds))
      << "no increment was lost or applied twice";
}

TEST_P(Store, ALeaseOfOneSecondIsRaisedToTwo) {
  const auto lease = client_->lease_grant(1, soon());
  ASSERT_TRUE(lease.ok()) << lease.status().to_string();
  EXPECT_EQ(*client_->lease_keep_alive(*lease, soon()), 2);
}

TEST_P(Store, AKeyVanishesWithItsLease) {
  const auto lease = client_->lease_grant(1, soon());
  ASSERT_TRUE(lease.ok());
  put("leased", "v", *lease);
  EXPECT_EQ((*client_->get("leased", soon()))->lease, *lease);
  const auto watch = client_->watch("leased", 0, soon());
  ASSERT_TRUE(watch.ok()) << watch.status().to_string();
  const auto events = (*watch)->next(soon());
  ASSERT_TRUE(events.ok()) << events.status().to_string();
  ASSERT_EQ(events->size(), 1u);
  EXPECT_EQ(events->front().kind, WatchEvent::Kind::kDelete);
  EXPECT_EQ(events->front().item.key, "leased");
  EXPECT_FALSE(client_->get("leased", soon())->has_value());
  EXPECT_EQ(client_->lease_keep_alive(*lease, soon()).status().code(), Code::kNotFound)
      << "a keep-alive of a lease that is gone succeeds without a TTL";
}

TEST_P(Store, RevokingALeaseTakesItsKeys) {
  const auto lease = client_->lease_grant(60, soon());
  ASSERT_TRUE(lease.ok());
  put("l/1", "v", *lease);
  put("l/2", "v", *lease);
  put("l/3", "v", *lease);
  put("l/3", "moved away");
  ASSERT_TRUE(client_->lease_revoke(*lease, soon()).ok());
  const auto left = client_->range("l/", soon());
  ASSERT_EQ(left->items.size(), 1u);
  EXPECT_EQ(left->items[0].key, "l/3");
  EXPECT_EQ(client_->lease_revoke(*lease, soon()).code(), Code::kNotFound);
  EXPECT_EQ(client_->put("l/4", "v", *lease, soon()).status().code(), Code::kNotFound);
  EXPECT_EQ(client_->lease_grant(9'000'000'001, soon()).status().code(), Code::kInvalidArgument);
}

TEST_P(Store, WatchSeesChangesInOrderFromARevision) {
  const int64_t first = put("w/a", "1");
  put("other", "x");
  put("w/a", "2");
  ASSERT_TRUE(client_->remove("w/a", soon()).ok());
  const auto watch = client_->watch("w/", first, soon());
  ASSERT_TRUE(watch.ok()) << watch.status().to_string();
  put("w/b", "3");
  std::vector<WatchEvent> all;
  while (all.size() < 4) {
    const auto events = (*watch)->next(soon());
    ASSERT_TRUE(events.ok()) << events.status().to_string();
    ASSERT_FALSE(events->empty());
    all.insert(all.end(), events->begin(), events->end());
  }
  EXPECT_EQ(all[0].item.value, "1");
  EXPECT_EQ(all[0].item.mod_revision, first);
  EXPECT_EQ(all[1].item.value, "2");
  EXPECT_EQ(all[1].item.create_revision, first);
  EXPECT_EQ(all[2].kind, WatchEvent::Kind::kDelete);
  EXPECT_EQ(all[2].item.mod_revision, first + 3);
  EXPECT_EQ(all[3].item.key, "w/b");
  EXPECT_EQ(all[3].item.mod_revision, first + 4);
}

TEST_P(Store, WatchFromNowSkipsThePastAndSurvivesItsDeadlines) {
  put("n/a", "old");
  const auto watch = client_->watch("n/", 0, soon());
  ASSERT_TRUE(watch.ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*watch)->next(Deadline::after(test::milliseconds(20))).status().code(),
              Code::kDeadline);
  }
  put("n/a", "new");
  const auto events = (*watch)->next(soon());
  ASSERT_TRUE(events.ok()) << events.status().to_string();
  EXPECT_EQ(events->front().item.value, "new");
}

TEST_P(Store, WatchOfACompactedRevisionSaysWhereToGoOn) {
  const int64_t first = put("c", "1");
  put("c", "2");
  const int64_t last = put("c", "3");
  ASSERT_EQ(
      store_->post("/v3/kv/compaction", R"({"revision":")" + std::to_string(last) + "\"}").status,
      200);
  const auto watch = client_->watch("c", first, soon());
  const Status status = watch.ok() ? (*watch)->next(soon()).status() : watch.status();
  EXPECT_EQ(status.code(), Code::kMismatch) << status.to_string();
  EXPECT_EQ(status.facts().vendor, last) << "the compact revision";
  if (watch.ok()) {
    EXPECT_EQ((*watch)->next(soon()).status().code(), Code::kMismatch);
  }

  const auto range = client_->range("c", soon());
  const auto again = client_->watch("c", range->revision + 1, soon());
  ASSERT_TRUE(again.ok());
  put("c", "4");
  EXPECT_EQ((*again)->next(soon())->front().item.value, "4");
}

TEST_P(Store, ATransactionIsOneBatchOfEvents) {
  const auto watch = client_->watch("t/", 0, soon());
  ASSERT_TRUE(watch.ok());
  std::vector<TxnOp> ops;
  for (int i = 0; i < 50; ++i) {
    ops.push_back({TxnOp::Kind::kPut, "t/" + std::to_string(i), std::string(20'000, 'v'), 0});
  }
  ASSERT_TRUE(client_->txn({}, ops, soon())->succeeded);
  const auto events = (*watch)->next(soon());
  ASSERT_TRUE(events.ok()) << events.status().to_string();
  EXPECT_EQ(events->size(), 50u);
}

TEST_P(Store, ValuesOver1500KiBAreRefused) {
  EXPECT_TRUE(client_->put("big", std::string(1'400'000, 'x'), 0, soon()).ok());
  EXPECT_EQ(client_->put("big", std::string(1'600'000, 'x'), 0, soon()).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ((*client_->get("big", soon()))->value.size(), 1'400'000u);
  EXPECT_FALSE(client_->put("big", std::string(8'000'000, 'x'), 0, soon()).ok());
  EXPECT_EQ((*client_->get("big", soon()))->value.size(), 1'400'000u);
}

TEST_P(Store, EmptyKeysAreRefused) {
  EXPECT_EQ(client_->put("", "v", 0, soon()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(client_->get("", soon()).status().code(), Code::kInvalidArgument);
}

TEST_P(Store, NumbersAreStringsAndZerosAreAbsent) {
  const std::string range = R"({"key":"YQ=="})";
  const auto none = wire::parse_object(store_->post("/v3/kv/range", range).body);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->contains("kvs"));
  EXPECT_FALSE(none->contains("count"));
  EXPECT_TRUE((*none)["header"]["revision"].is_string());
  put("a", "b");
  const auto one = wire::parse_object(store_->post("/v3/kv/range", range).body);
  ASSERT_TRUE(one.ok());
  const auto& kv = (*one)["kvs"][0];
  EXPECT_TRUE(kv["mod_revision"].is_string());
  EXPECT_EQ(kv["version"], "1");
  EXPECT_FALSE(kv.contains("lease"));
  EXPECT_EQ((*one)["count"], "1");
  const auto lost = wire::parse_object(
      store_
          ->post("/v3/kv/txn", R"({"compare":[{"key":"YQ==","target":"MOD","mod_revision":"0"}]})")
          .body);
  ASSERT_TRUE(lost.ok());
  EXPECT_FALSE(lost->contains("succeeded"));
}

TEST_P(Store, MalformedRequestsAre400) {
  for (const char* body :
       {"", "nonsense", "[1]", R"({"key":"!!!"})", R"({"key":5})", "{\"key\":\"YQ==\""}) {
    EXPECT_EQ(store_->post("/v3/kv/put", body).status, 400) << body;
  }
  EXPECT_EQ(store_->post("/v3/nope", "{}").status, 404);
}

TEST_P(Store, AStoreThatIsGoneIsATypedErrorByTheDeadline) {
  const auto watch = client_->watch("g", 0, soon());
  ASSERT_TRUE(watch.ok());
  store_->stop();
  EXPECT_EQ((*watch)->next(soon()).status().code(), Code::kUnavailable);
  for (const Status& status :
       {client_->get("a", soon()).status(), client_->put("a", "b", 0, soon()).status(),
        client_->lease_grant(5, soon()).status(), client_->watch("a", 0, soon()).status()}) {
    EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
    EXPECT_FALSE(status.facts().peer.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Store,
                         testing::Values(Backend::kEmbedded, Backend::kEmbeddedToken,
                                         Backend::kEtcd, Backend::kEtcdAuth),
                         test::backend_name);

TEST(EtcdAuth, WrongPasswordAndMissingUser) {
  if (!test::EtcdProcess::installed()) GTEST_SKIP() << "etcd is not installed (/usr/bin/etcd)";
  const auto etcd = test::EtcdProcess::start(true);
  ASSERT_NE(etcd, nullptr);
  StoreOptions options;
  options.endpoints = {etcd->url()};
  EXPECT_EQ(StoreClient::connect(options, soon()).status().code(), Code::kUnauthenticated);
  options.token = "job-token";
  EXPECT_EQ(StoreClient::connect(options, soon()).status().code(), Code::kUnauthenticated);
  options.user = "root";
  options.password = "wrong";
  EXPECT_EQ(StoreClient::connect(options, soon()).status().code(), Code::kUnauthenticated);
  options.password = "secret";
  EXPECT_TRUE(StoreClient::connect(options, soon()).ok());
}

TEST(EtcdAuth, AUserForAStoreWithoutUsersIsNotPassedOver) {
  if (!test::EtcdProcess::installed()) GTEST_SKIP() << "etcd is not installed (/usr/bin/etcd)";
  const auto etcd = test::EtcdProcess::start(false);
  ASSERT_NE(etcd, nullptr);
  StoreOptions options;
  options.endpoints = {etcd->url()};
  options.user = "root";
  options.password = "secret";
  EXPECT_EQ(StoreClient::connect(options, soon()).status().code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace wb
