// What the embedded store knows: keys, revisions, leases and a bounded history. Pure: no network,
// no clock of its own. The semantics are etcd's, for the subset that the API serves.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace wb {

struct StoredValue {
  std::string value;
  int64_t create_revision = 0;
  int64_t mod_revision = 0;
  int64_t version = 0;  // puts since it was created
  int64_t lease = 0;
};

// [begin, end); end empty: the one key; end "\0": every key >= begin.
struct StoreRange {
  std::string begin;
  std::string end;
  bool contains(std::string_view key) const;
};

struct StoreCompare {
  enum class Target { kVersion, kCreate, kMod, kValue, kLease } target = Target::kVersion;
  enum class Relation { kEqual, kGreater, kLess, kNotEqual } relation = Relation::kEqual;
  std::string key;
  int64_t number = 0;
  std::string value;
};

struct StoreOp {
  enum class Kind { kPut, kDelete, kRange } kind = Kind::kPut;
  StoreRange range;  // kPut: begin is the key
  std::string value;
  int64_t lease = 0;
};

struct StoreItem {
  std::string key;
  StoredValue value;
};

struct StoreOpResult {
  int64_t deleted = 0;
  std::vector<StoreItem> items;
};

struct StoreTxnResult {
  bool succeeded = false;
  std::vector<StoreOpResult> results;
};

struct StoreEvent {
  bool is_delete = false;
  StoreItem item;  // of a delete: key and mod_revision only
};

struct StoreLimits {
  size_t history_events = 20'000;
  size_t history_bytes = 64u << 20;
  size_t total_bytes = 256u << 20;  // of keys and values
  size_t request_bytes = 1'572'864;
  // Of the keys and values that one answer carries, as base64 in JSON. The client takes 64 MiB; the
  // rest of an answer (at most 128 operations' headers) needs far less than 1 MiB.
  size_t reply_bytes = 63u << 20;
  int64_t min_ttl = 2;
  int64_t max_ttl = 9'000'000'000;
  size_t leases = 100'000;
};

// Errors carry etcd's sentence, and the code its client would derive from it.
class StoreState {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit StoreState(const StoreLimits& limits) : limits_(limits) {}

  int64_t revision() const { return revision_; }
  // The lowest revision from which a watch can start.
  int64_t first_watchable() const { return compacted_; }

  // The first `limit` keys (0: all). kNoMemory when they are over reply_bytes: nothing is copied.
  Result<std::vector<StoreItem>> range(const StoreRange& range, size_t limit = 0) const;
  size_t count(const StoreRange& range) const;
  // All compares hold: `success` is applied in one revision, else `failure`. Checked whole before
  // anything is changed. A plain put or delete is a transaction without compares.
  Result<StoreTxnResult> txn(const std::vector<StoreCompare>& compares,
                             const std::vector<StoreOp>& success,
                             const std::vector<StoreOp>& failure);

  struct Lease {
    int64_t id = 0;
    int64_t ttl = 0;
  };
  // `id` 0: chosen here. The ttl is raised to the least one.
  Result<Lease> grant(int64_t id, int64_t ttl, Time now);
  std::optional<Lease> keep_alive(int64_t id, Time now);
  Status revoke(int64_t id);
  // Revokes the leases whose time is over; whether any key went.
  bool expire(Time now);

  Status compact(int64_t revision);
  // Events of `range` with revision >= *from, ascending, whole revisions only, until about
  // `max_bytes`; moves *from behind them. *from must be >= first_watchable().
  std::vector<const StoreEvent*> events(const StoreRange& range, int64_t* from,
                                        size_t max_bytes) const;

 private:
  struct LeaseState {
    int64_t ttl = 0;
    Time deadline;
    std::set<std::string> keys;
  };
  using Keys = std::map<std::string, StoredValue, std::less<>>;

  bool holds(const StoreCompare& compare) const;
  Status check_ops(const std::vector<StoreOp>& ops) const;
  Status check_reply(const std::vector<StoreOp>& ops) const;
  Status add_reply(const StoreRange& range, size_t limit, size_t* bytes) const;
  std::vector<StoreItem> copy(const StoreRange& range, size_t limit) const;
  void put(const StoreOp& op, int64_t revision);
  int64_t remove(const StoreRange& range, int64_t revision);
  void erase(Keys::iterator at, int64_t revision);
  void record(StoreEvent event);
  std::pair<Keys::const_iterator, Keys::const_iterator> bounds(const StoreRange& range) const;

  const StoreLimits limits_;
  int64_t revision_ = 1;   // an empty etcd begins at 1
  int64_t compacted_ = 0;  // events before this revision are gone
  size_t bytes_ = 0;
  size_t history_bytes_ = 0;
  Keys keys_;
  std::map<int64_t, LeaseState> leases_;
  std::deque<StoreEvent> history_;
};

}  // namespace wb
