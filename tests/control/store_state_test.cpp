#include "control/store_state.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace wb {
namespace {

using std::chrono::seconds;

StoreOp put_op(const std::string& key, const std::string& value, int64_t lease = 0) {
  return {StoreOp::Kind::kPut, {key, ""}, value, lease};
}
StoreOp delete_op(const std::string& key) { return {StoreOp::Kind::kDelete, {key, ""}, "", 0}; }

StoreLimits small() {
  StoreLimits limits;
  limits.history_events = 8;
  return limits;
}

// Everything that ever happened, kept whole and searched from the front.
struct Oracle {
  struct Change {
    int64_t revision;
    std::string key;
    bool is_delete;
    std::string value;
  };
  std::vector<Change> log;
  int64_t revision = 1;

  const Change* last(const std::string& key) const {
    const Change* found = nullptr;
    for (const Change& change : log) {
      if (change.key == key) found = &change;
    }
    return found == nullptr || found->is_delete ? nullptr : found;
  }
};

TEST(StoreState, AgreesWithALogOfAllChanges) {
  EXPECT_TRUE(rc::check("store state", [] {
    StoreState state(small());
    Oracle oracle;
    const auto key_gen = rc::gen::elementOf(std::vector<std::string>{"a", "b", "c", "d"});
    const int steps = *rc::gen::inRange(1, 60);
    for (int step = 0; step < steps; ++step) {
      const std::string key = *key_gen;
      const std::string compared = *key_gen;
      const auto* known = oracle.last(compared);
      const int64_t guess = *rc::gen::arbitrary<bool>() ? (known == nullptr ? 0 : known->revision)
                                                        : *rc::gen::inRange(0, 20);
      const bool is_delete = *rc::gen::arbitrary<bool>();
      const std::string value = std::to_string(step);
      const auto result = state.txn(
          {{StoreCompare::Target::kMod, StoreCompare::Relation::kEqual, compared, guess, ""}},
          {is_delete ? delete_op(key) : put_op(key, value)}, {});
      RC_ASSERT(result.ok());
      const bool expected = guess == (known == nullptr ? 0 : known->revision);
      RC_ASSERT(result->succeeded == expected);
      if (expected && (!is_delete || oracle.last(key) != nullptr)) {
        oracle.log.push_back({++oracle.revision, key, is_delete, value});
      }
      RC_ASSERT(state.revision() == oracle.revision);
    }
    for (const std::string& key : {"a", "b", "c", "d"}) {
      const auto items = *state.range({key, ""});
      const auto* known = oracle.last(key);
      RC_ASSERT(items.size() == (known == nullptr ? 0u : 1u));
      if (known != nullptr) RC_ASSERT(items[0].value.value == known->value);
    }
    // The history from any watchable revision is the end of the log.
    int64_t from = std::max<int64_t>(state.first_watchable(), *rc::gen::inRange(0, 20));
    std::vector<Oracle::Change> tail;
    for (const auto& change : oracle.log) {
      if (change.revision >= from) tail.push_back(change);
    }
    size_t at = 0;
    for (;;) {
      const auto events = state.events({std::string(1, '\0'), std::string(1, '\0')}, &from, 1);
      if (events.empty()) break;
      for (const StoreEvent* event : events) {
        RC_ASSERT(at < tail.size());
        RC_ASSERT(event->item.key == tail[at].key);
        RC_ASSERT(event->is_delete == tail[at].is_delete);
        RC_ASSERT(event->item.value.mod_revision == tail[at].revision);
        ++at;
      }
    }
    RC_ASSERT(at == tail.size());
    RC_ASSERT(from == std::max(state.revision() + 1, from));
  }));
}

TEST(StoreState, HistoryIsBoundedByBytes) {
  StoreLimits limits;
  limits.history_bytes = 10'000;
  StoreState state(limits);
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(state.txn({}, {put_op("k", std::string(1000, 'x'))}, {}).ok());
  EXPECT_GT(state.first_watchable(), 90);
  EXPECT_LE(state.first_watchable(), state.revision() + 1);
  int64_t from = state.first_watchable();
  EXPECT_LT(state.events({"k", ""}, &from, 1u << 20).size(), 10u);
}

TEST(StoreState, KeysAreBoundedByBytes) {
  StoreLimits limits;
  limits.total_bytes = 100'000;
  StoreState state(limits);
  int stored = 0;
  Status status;
  while (status.ok() && stored < 10'000) {
    status = state.txn({}, {put_op("k" + std::to_string(stored), "")}, {}).status();
    if (status.ok()) ++stored;
  }
  EXPECT_EQ(status.code(), Code::kNoMemory);
  EXPECT_LT(stored, 1000) << "small keys count too";
  ASSERT_TRUE(state.txn({}, {delete_op("k0"), delete_op("k1")}, {}).ok());
  EXPECT_TRUE(state.txn({}, {put_op("again", "")}, {}).ok()) << "room was given back";
}

StoreOp range_op(const std::string& begin, const std::string& end) {
  return {StoreOp::Kind::kRange, {begin, end}, "", 0};
}

TEST(StoreState, AnAnswerIsBoundedBeforeAnythingIsApplied) {
  StoreLimits limits;
  limits.reply_bytes = 20'000;
  StoreState state(limits);
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    ASSERT_TRUE(state.txn({}, {put_op(key, std::string(3000, 'x'))}, {}).ok());
  }
  const int64_t before = state.revision();
  const auto code = [&](const std::vector<StoreOp>& ops) {
    return state.txn({}, ops, {}).status().code();
  };
  // Four values are 16 KiB of base64, five are over the limit.
  EXPECT_EQ(state.range({"a", "z"}).status().code(), Code::kNoMemory);
  EXPECT_EQ(state.range({"a", "z"}, 4)->size(), 4u) << "a limit makes it small enough";
  EXPECT_EQ(state.count({"a", "z"}), 5u);
  EXPECT_EQ(state.range({"a", "e"})->size(), 4u);
  EXPECT_EQ(code({put_op("f", "1"), range_op("a", "z")}), Code::kNoMemory);
  EXPECT_EQ(code({delete_op("a"), range_op("b", "d"), range_op("b", "d"), range_op("b", "d")}),
            Code::kNoMemory)
      << "the ranges of a transaction count together";
  EXPECT_EQ(code({put_op("a", std::string(15'000, 'y')), range_op("a", "")}), Code::kNoMemory)
      << "what the transaction itself puts counts";
  EXPECT_EQ(state.revision(), before);
  EXPECT_EQ(state.count({"a", "z"}), 5u);
  const StoreCompare never{StoreCompare::Target::kMod, StoreCompare::Relation::kEqual, "a", 77, ""};
  EXPECT_TRUE(state.txn({never}, {range_op("a", "z")}, {range_op("a", "c")}).ok())
      << "only the branch that is taken answers";
  EXPECT_TRUE(state.txn({}, {put_op("g", std::string(15'000, 'y')), range_op("a", "b")}, {}).ok())
      << "a put that no range shows does not count";
}

TEST(StoreState, LeasesEndByTheGivenClockOnly) {
  StoreState state(StoreLimits{});
  const StoreState::Time start{};
  const auto lease = state.grant(0, 5, start);
  ASSERT_TRUE(lease.ok());
  ASSERT_TRUE(state.txn({}, {put_op("a", "1", lease->id), put_op("b", "1", lease->id)}, {}).ok());
  EXPECT_FALSE(state.expire(start + seconds(4)));
  EXPECT_TRUE(state.keep_alive(lease->id, start + seconds(4)).has_value());
  EXPECT_FALSE(state.expire(start + seconds(8)));
  const int64_t before = state.revision();
  EXPECT_TRUE(state.expire(start + seconds(9)));
  EXPECT_EQ(state.revision(), before + 1) << "all keys of a lease go in one revision";
  EXPECT_TRUE(state.range({"a", "z"})->empty());
  EXPECT_FALSE(state.keep_alive(lease->id, start + seconds(9)).has_value());
}

TEST(StoreState, AFailedTxnLeavesNothing) {
  StoreState state(StoreLimits{});
  EXPECT_EQ(state.txn({}, {put_op("a", "1"), put_op("b", "1", 77)}, {}).status().code(),
            Code::kNotFound);
  EXPECT_TRUE(state.range({"a", "z"})->empty());
  EXPECT_EQ(state.revision(), 1);
}

}  // namespace
}  // namespace wb
