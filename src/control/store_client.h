// Client of the etcd v3 HTTP/JSON API. The one code path to every store: the embedded one
// (store_server.h) serves the same subset, clusters use a real etcd.
//
// Every call has a deadline and ends by it. Keys and values are bytes. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"

namespace wb {

struct StoreOptions {
  // "http://HOST:PORT" or "https://HOST:PORT"; tried in order, the next one when one cannot be
  // reached.
  std::vector<std::string> endpoints;
  // Job token for the embedded store; sent as a bearer token. Empty: none.
  std::string token;
  // etcd's own authentication; empty: none.
  std::string user;
  std::string password;
  std::string ca_file;  // https: trusted certificates; empty: the system's
};

struct KeyValue {
  std::string key;
  std::string value;
  int64_t create_revision = 0;
  int64_t mod_revision = 0;
  int64_t lease = 0;
};

struct RangeResult {
  std::vector<KeyValue> items;  // ascending by key
  int64_t revision = 0;         // of the store when it answered
};

// One comparison of a transaction: mod_revision of `key` equals `mod_revision` (0: the key does not
// exist).
struct TxnCompare {
  std::string key;
  int64_t mod_revision = 0;
};
struct TxnOp {
  enum class Kind { kPut, kDelete } kind = Kind::kPut;
  std::string key;
  std::string value;
  int64_t lease = 0;
};
struct TxnResult {
  bool succeeded = false;
  int64_t revision = 0;
};

struct WatchEvent {
  enum class Kind { kPut, kDelete } kind = Kind::kPut;
  KeyValue item;
};

// A stream of changes under a prefix. One thread at a time.
class Watch {
 public:
  virtual ~Watch() = default;  // ends the stream; does not wait for the network
  // The next batch of events (never empty), in order. kDeadline: nothing happened until then, the
  // watch goes on. kMismatch: the revision was compacted (range again, watch from there). Any other
  // error ends the watch.
  virtual Result<std::vector<WatchEvent>> next(Deadline deadline) = 0;
};

class StoreClient {
 public:
  // Checks the words of the options, reaches one endpoint and authenticates.
  static Result<std::unique_ptr<StoreClient>> connect(StoreOptions options, Deadline deadline);
  virtual ~StoreClient() = default;

  virtual Result<int64_t> put(std::string_view key, std::string_view value, int64_t lease,
                              Deadline deadline) = 0;  // -> revision
  virtual Result<std::optional<KeyValue>> get(std::string_view key, Deadline deadline) = 0;
  virtual Result<RangeResult> range(std::string_view prefix, Deadline deadline) = 0;
  virtual Result<int64_t> remove(std::string_view key, Deadline deadline) = 0;  // -> keys deleted
  // All compares hold -> all ops are applied in one revision; else nothing is.
  virtual Result<TxnResult> txn(const std::vector<TxnCompare>& compares,
                                const std::vector<TxnOp>& ops, Deadline deadline) = 0;
  // Seconds may be raised by the server; returns the lease id.
  virtual Result<int64_t> lease_grant(int64_t seconds, Deadline deadline) = 0;
  // kNotFound when the lease is gone. Returns the seconds left.
  virtual Result<int64_t> lease_keep_alive(int64_t lease, Deadline deadline) = 0;
  virtual Status lease_revoke(int64_t lease, Deadline deadline) = 0;
  // Events with revision >= from_revision (0: from now).
  virtual Result<std::unique_ptr<Watch>> watch(std::string_view prefix, int64_t from_revision,
                                               Deadline deadline) = 0;
};

}  // namespace wb
