#include "control/store_client.h"

#include <algorithm>

#include "control/http_client.h"
#include "control/store_pool.h"
#include "control/wire.h"

namespace wb {
namespace {

using wire::Json;

// A watch line that is longer cannot come from our own writes.
constexpr size_t kMaxLine = 32u << 20;

Status bad_answer(const std::string& why) {
  return Status(Code::kBadData, "the store's answer is malformed: " + why);
}

Result<int64_t> header_revision(const Json& reply) {
  WB_ASSIGN_OR_RETURN(const Json* header, wire::get_object(reply, "header"));
  if (header == nullptr) return bad_answer("no header");
  return wire::get_int(*header, "revision");
}

Result<KeyValue> parse_item(const Json& json) {
  if (!json.is_object()) return bad_answer("a key is not an object");
  KeyValue item;
  WB_ASSIGN_OR_RETURN(item.key, wire::get_bytes(json, "key"));
  WB_ASSIGN_OR_RETURN(item.value, wire::get_bytes(json, "value"));
  WB_ASSIGN_OR_RETURN(item.create_revision, wire::get_int(json, "create_revision"));
  WB_ASSIGN_OR_RETURN(item.mod_revision, wire::get_int(json, "mod_revision"));
  WB_ASSIGN_OR_RETURN(item.lease, wire::get_int(json, "lease"));
  if (item.key.empty() || item.mod_revision <= 0) return bad_answer("a key without a revision");
  return item;
}

Result<RangeResult> parse_range(const Json& reply) {
  RangeResult result;
  WB_ASSIGN_OR_RETURN(result.revision, header_revision(reply));
  WB_ASSIGN_OR_RETURN(const Json* kvs, wire::get_array(reply, "kvs"));
  WB_ASSIGN_OR_RETURN(const bool more, wire::get_bool(reply, "more"));
  if (more) return bad_answer("a part of the range, though all was asked for");
  if (kvs == nullptr) return result;
  for (const Json& entry : *kvs) {
    WB_ASSIGN_OR_RETURN(KeyValue item, parse_item(entry));
    if (!result.items.empty() && item.key <= result.items.back().key) {
      return bad_answer("keys out of order");
    }
    result.items.push_back(std::move(item));
  }
  return result;
}

Result<std::vector<WatchEvent>> parse_events(const Json& array) {
  std::vector<WatchEvent> events;
  for (const Json& entry : array) {
    if (!entry.is_object()) return bad_answer("an event is not an object");
    WatchEvent event;
    WB_ASSIGN_OR_RETURN(const std::string type, wire::get_text(entry, "type"));
    if (!type.empty() && type != "PUT" && type != "DELETE")
      return bad_answer("unknown event " + type);
    event.kind = type == "DELETE" ? WatchEvent::Kind::kDelete : WatchEvent::Kind::kPut;
    WB_ASSIGN_OR_RETURN(const Json* kv, wire::get_object(entry, "kv"));
    if (kv == nullptr) return bad_answer("an event without a key");
    WB_ASSIGN_OR_RETURN(event.item, parse_item(*kv));
    events.push_back(std::move(event));
  }
  return events;
}

// The lines of one stream of answers, each {"result": {...}} or {"error": {...}}.
class AnswerLines {
 public:
  explicit AnswerLines(StoreStream stream) : stream_(std::move(stream)) {}

  // The next result; kUnavailable at the end of the stream.
  Result<Json> next(Deadline deadline) {
    for (;;) {
      const size_t end = pending_.find('\n', searched_);
      if (end != std::string::npos) {
        const std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        searched_ = 0;
        if (line.empty()) continue;
        return parse(line);
      }
      searched_ = pending_.size();
      if (pending_.size() > kMaxLine) return bad_answer("an endless line");
      WB_ASSIGN_OR_RETURN(const std::string more, stream_.connection->read_stream(deadline));
      if (more.empty()) {
        return Status(Code::kUnavailable, "the store ended the stream").with_peer(stream_.address);
      }
      pending_ += more;
    }
  }

 private:
  Result<Json> parse(const std::string& line) const {
    auto json = wire::parse_object(line);
    if (!json.ok()) return bad_answer(json.status().message());
    WB_ASSIGN_OR_RETURN(const Json* error, wire::get_object(*json, "error"));
    if (error != nullptr) return store_error(200, *error, stream_.address);
    WB_ASSIGN_OR_RETURN(const Json* result, wire::get_object(*json, "result"));
    if (result == nullptr) return bad_answer("neither a result nor an error");
    return Json(*result);
  }

  StoreStream stream_;
  std::string pending_;
  size_t searched_ = 0;
};

class WatchImpl final : public Watch {
 public:
  WatchImpl(AnswerLines lines) : lines_(std::move(lines)) {}

  // Reads the store's word that the watch is there: what changes after that is seen.
  Status await_created(Deadline deadline) {
    WB_ASSIGN_OR_RETURN(const Json result, lines_.next(deadline));
    WB_ASSIGN_OR_RETURN(const bool created, wire::get_bool(result, "created"));
    WB_RETURN_IF_ERROR(check_cancelled(result));
    if (!created) return bad_answer("a watch that was not created");
    return Status();
  }

  Result<std::vector<WatchEvent>> next(Deadline deadline) override {
    if (!ended_.ok()) return ended_;
    auto events = read(deadline);
    if (!events.ok() && events.status().code() != Code::kDeadline) ended_ = events.status();
    return events;
  }

 private:
  Result<std::vector<WatchEvent>> read(Deadline deadline) {
    for (;;) {
      WB_ASSIGN_OR_RETURN(const Json result, lines_.next(deadline));
      WB_RETURN_IF_ERROR(check_cancelled(result));
      WB_ASSIGN_OR_RETURN(const Json* array, wire::get_array(result, "events"));
      if (array == nullptr || array->empty()) continue;  // a progress notice
      WB_ASSIGN_OR_RETURN(auto events, parse_events(*array));
      for (const WatchEvent& event : events) {
        if (event.item.mod_revision < revision_) return bad_answer("events out of order");
        revision_ = event.item.mod_revision;
      }
      return events;
    }
  }

  static Status check_cancelled(const Json& result) {
    WB_ASSIGN_OR_RETURN(const bool cancelled, wire::get_bool(result, "canceled"));
    if (!cancelled) return Status();
    WB_ASSIGN_OR_RETURN(const int64_t compacted, wire::get_int(result, "compact_revision"));
    WB_ASSIGN_OR_RETURN(const std::string reason, wire::get_text(result, "cancel_reason"));
    if (compacted != 0) {
      return Status(Code::kMismatch,
                    "the watch asks for revisions that were compacted; the first "
                    "that is left is " +
                        std::to_string(compacted))
          .with_vendor(compacted);
    }
    return store_reason_error(reason);
  }

  AnswerLines lines_;
  int64_t revision_ = 0;
  Status ended_;
};

class Client final : public StoreClient {
 public:
  explicit Client(std::unique_ptr<StorePool> pool) : pool_(std::move(pool)) {}

  Result<int64_t> put(std::string_view key, std::string_view value, int64_t lease,
                      Deadline deadline) override {
    Json request = Json::object();
    wire::put_bytes(&request, "key", key);
    wire::put_bytes(&request, "value", value);
    wire::put_int(&request, "lease", lease);
    WB_ASSIGN_OR_RETURN(const Json reply, pool_->write("/v3/kv/put", request, deadline));
    return header_revision(reply);
  }

  Result<std::optional<KeyValue>> get(std::string_view key, Deadline deadline) override {
    Json request = Json::object();
    wire::put_bytes(&request, "key", key);
    WB_ASSIGN_OR_RETURN(const Json reply, pool_->read("/v3/kv/range", request, deadline));
    WB_ASSIGN_OR_RETURN(RangeResult result, parse_range(reply));
    if (result.items.empty()) return std::optional<KeyValue>();
    if (result.items.size() > 1 || result.items.front().key != key) {
      return bad_answer("a key that was not asked for");
    }
    return std::optional<KeyValue>(std::move(result.items.front()));
  }

  Result<RangeResult> range(std::string_view prefix, Deadline deadline) override {
    const Json request = range_request(prefix);
    WB_ASSIGN_OR_RETURN(const Json reply, pool_->read("/v3/kv/range", request, deadline));
    WB_ASSIGN_OR_RETURN(RangeResult result, parse_range(reply));
    for (const KeyValue& item : result.items) {
      if (item.key.compare(0, prefix.size(), prefix) != 0) {
        return bad_answer("a key that was not asked for");
      }
    }
    return result;
  }

  Result<int64_t> remove(std::string_view key, Deadline deadline) override {
    Json request = Json::object();
    wire::put_bytes(&request, "key", key);
    WB_ASSIGN_OR_RETURN(const Json reply, pool_->write("/v3/kv/deleterange", request, deadline));
    return wire::get_int(reply, "deleted");
  }

  Result<TxnResult> txn(const std::vector<TxnCompare>& compares, const std::vector<TxnOp>& ops,
                        Deadline deadline) override {
    Json request = Json::object();
    for (const TxnCompare& compare : compares) {
      Json entry{{"target", "MOD"}, {"result", "EQUAL"}};
      wire::put_bytes(&entry, "key", compare.key);
      // Present even when zero: it is a member of a oneof, and says which.
      entry["mod_revision"] = std::to_string(compare.mod_revision);
      request["compare"].push_back(std::move(entry));
    }
    for (const TxnOp& op : ops) {
      Json entry = Json::object();
      wire::put_bytes(&entry, "key", op.key);
      const bool put = op.kind == TxnOp::Kind::kPut;
      if (put) {
        wire::put_bytes(&entry, "value", op.value);
        wire::put_int(&entry, "lease", op.lease);
      }
      request["success"].push_back(
          Json{{put ? "request_put" : "request_delete_range", std::move(entry)}});
    }
    WB_ASSIGN_OR_RETURN(const Json reply, pool_->write("/v3/kv/txn", request, deadline));
    TxnResult result;
    WB_ASSIGN_OR_RETURN(result.succeeded, wire::get_bool(reply, "succeeded"));
    WB_ASSIGN_OR_RETURN(result.revision, header_revision(reply));
    return result;
  }

  Result<int64_t> lease_grant(int64_t seconds, Deadline deadline) override {
    if (seconds <= 0) return Status(Code::kInvalidArgument, "a lease lasts at least a second");
    Json request = Json::object();
    wire::put_int(&request, "TTL", seconds);
    WB_ASSIGN_OR_RETURN(const Json reply, pool_->write("/v3/lease/grant", request, deadline));
    WB_ASSIGN_OR_RETURN(const int64_t id, wire::get_int(reply, "ID"));
    if (id == 0) return bad_answer("a lease without an id");
    return id;
  }

  Result<int64_t> lease_keep_alive(int64_t lease, Deadline deadline) override {
    Json request = Json::object();
    wire::put_int(&request, "ID", lease);
    // Extending a lease twice is extending it once: it may be sent again. The answer is a stream
    // that ends with our one request, so it is read like a plain one.
    WB_ASSIGN_OR_RETURN(const Json reply, pool_->read("/v3/lease/keepalive", request, deadline));
    WB_ASSIGN_OR_RETURN(const Json* result, wire::get_object(reply, "result"));
    if (result == nullptr) return bad_answer("a keep-alive without a result");
    WB_ASSIGN_OR_RETURN(const int64_t ttl, wire::get_int(*result, "TTL"));
    if (ttl <= 0) {
      return Status(Code::kNotFound, "lease " + std::to_string(lease) + " has ended");
    }
    return ttl;
  }

  Status lease_revoke(int64_t lease, Deadline deadline) override {
    Json request = Json::object();
    wire::put_int(&request, "ID", lease);
    return pool_->write("/v3/lease/revoke", request, deadline).status();
  }

  Result<std::unique_ptr<Watch>> watch(std::string_view prefix, int64_t from_revision,
                                       Deadline deadline) override {
    Json create = range_request(prefix);
    wire::put_int(&create, "start_revision", from_revision);
    const Json request{{"create_request", std::move(create)}};
    // A store whose token for us has expired says so inside a created watch, so a second try with a
    // new token is made here and not in the pool.
    for (bool again = true;; again = false) {
      WB_ASSIGN_OR_RETURN(StoreStream stream, pool_->open_stream("/v3/watch", request, deadline));
      const uint64_t login = stream.login;
      auto watch = std::make_unique<WatchImpl>(AnswerLines(std::move(stream)));
      const Status status = watch->await_created(deadline);
      if (status.ok()) return std::unique_ptr<Watch>(std::move(watch));
      if (status.code() != Code::kUnauthenticated || !again) return status;
      WB_RETURN_IF_ERROR(pool_->log_in_again(login, deadline));
    }
  }

 private:
  static Json range_request(std::string_view prefix) {
    const wire::KeyRange range = wire::prefix_range(prefix);
    Json request = Json::object();
    wire::put_bytes(&request, "key", range.begin);
    wire::put_bytes(&request, "range_end", range.end);
    return request;
  }

  std::unique_ptr<StorePool> pool_;
};

}  // namespace

Result<std::unique_ptr<StoreClient>> StoreClient::connect(StoreOptions options, Deadline deadline) {
  WB_ASSIGN_OR_RETURN(auto pool, StorePool::open(std::move(options), deadline));
  return std::unique_ptr<StoreClient>(std::make_unique<Client>(std::move(pool)));
}

}  // namespace wb
