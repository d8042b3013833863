#include "control/store_api.h"

#include <algorithm>
#include <array>

#include "control/wire.h"

namespace wb {
namespace {

using wire::get_array;
using wire::get_bytes;
using wire::get_int;
using wire::get_object;
using wire::get_text;
using wire::Grpc;
using wire::Json;

constexpr size_t kWatchBatchBytes = 1u << 20;
constexpr size_t kMaxTxnOps = 128;  // etcd's default

struct ErrorWords {
  int http;
  Grpc grpc;
};

ErrorWords words_of(Code code) {
  switch (code) {
    case Code::kNotFound:
      return {404, Grpc::kNotFound};
    case Code::kNoMemory:
      return {429, Grpc::kResourceExhausted};
    case Code::kFailedPrecondition:
      return {412, Grpc::kFailedPrecondition};
    case Code::kUnsupported:
      return {501, Grpc::kUnimplemented};
    default:
      return {400, Grpc::kInvalidArgument};
  }
}

Grpc grpc_of_http(int status) {
  switch (status) {
    case 401:
      return Grpc::kUnauthenticated;
    case 404:
    case 405:
      return Grpc::kNotFound;
    case 413:
      return Grpc::kResourceExhausted;
    default:
      return Grpc::kInvalidArgument;
  }
}

std::string error_body(Grpc code, std::string_view sentence) {
  return Json{{"error", sentence}, {"message", sentence}, {"code", static_cast<int>(code)}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

HttpAnswer error_answer(const Status& status) {
  const ErrorWords words = words_of(status.code());
  HttpAnswer answer;
  answer.status = words.http;
  answer.body = error_body(words.grpc, status.message());
  return answer;
}

Json header(const StoreState& state) {
  return Json{{"cluster_id", "1"},
              {"member_id", "1"},
              {"revision", std::to_string(state.revision())},
              {"raft_term", "1"}};
}

Json item_json(const StoreItem& item) {
  Json kv = Json::object();
  wire::put_bytes(&kv, "key", item.key);
  wire::put_int(&kv, "create_revision", item.value.create_revision);
  wire::put_int(&kv, "mod_revision", item.value.mod_revision);
  wire::put_int(&kv, "version", item.value.version);
  wire::put_bytes(&kv, "value", item.value.value);
  wire::put_int(&kv, "lease", item.value.lease);
  return kv;
}

// A field of etcd's API that changes the meaning of a request and is not served must not be passed
// over in silence.
Status refuse_fields(const Json& request, std::initializer_list<const char*> known) {
  for (const auto& [name, value] : request.items()) {
    const bool served = std::any_of(known.begin(), known.end(),
                                    [&name = name](const char* word) { return name == word; });
    if (!served) {
      return Status(Code::kUnsupported, "the embedded store does not serve the field " + name);
    }
  }
  return Status();
}

Result<StoreRange> range_of(const Json& request) {
  StoreRange range;
  WB_ASSIGN_OR_RETURN(range.begin, get_bytes(request, "key"));
  WB_ASSIGN_OR_RETURN(range.end, get_bytes(request, "range_end"));
  return range;
}

Result<StoreOp> put_op(const Json& request) {
  WB_RETURN_IF_ERROR(refuse_fields(request, {"key", "value", "lease"}));
  StoreOp op;
  op.kind = StoreOp::Kind::kPut;
  WB_ASSIGN_OR_RETURN(op.range.begin, get_bytes(request, "key"));
  WB_ASSIGN_OR_RETURN(op.value, get_bytes(request, "value"));
  WB_ASSIGN_OR_RETURN(op.lease, get_int(request, "lease"));
  return op;
}

Result<StoreOp> range_op(const Json& request, StoreOp::Kind kind) {
  WB_RETURN_IF_ERROR(refuse_fields(request, {"key", "range_end", "serializable"}));
  StoreOp op;
  op.kind = kind;
  WB_ASSIGN_OR_RETURN(op.range, range_of(request));
  return op;
}

Result<StoreOp> op_of(const Json& request) {
  if (!request.is_object()) return Status(Code::kInvalidArgument, "an operation is an object");
  WB_ASSIGN_OR_RETURN(const Json* put, get_object(request, "request_put"));
  WB_ASSIGN_OR_RETURN(const Json* remove, get_object(request, "request_delete_range"));
  WB_ASSIGN_OR_RETURN(const Json* range, get_object(request, "request_range"));
  if ((put != nullptr) + (remove != nullptr) + (range != nullptr) != 1) {
    return Status(Code::kInvalidArgument, "an operation is one of put, delete_range and range");
  }
  if (put != nullptr) return put_op(*put);
  if (remove != nullptr) return range_op(*remove, StoreOp::Kind::kDelete);
  return range_op(*range, StoreOp::Kind::kRange);
}

Result<std::vector<StoreOp>> ops_of(const Json& request, const char* field) {
  std::vector<StoreOp> ops;
  WB_ASSIGN_OR_RETURN(const Json* array, get_array(request, field));
  if (array == nullptr) return ops;
  if (array->size() > kMaxTxnOps) {
    return Status(Code::kInvalidArgument, "etcdserver: too many operations in txn request");
  }
  for (const Json& entry : *array) {
    WB_ASSIGN_OR_RETURN(StoreOp op, op_of(entry));
    ops.push_back(std::move(op));
  }
  return ops;
}

template <typename Enum, size_t kCount>
Result<Enum> word_of(const Json& request, const char* field,
                     const std::array<std::pair<std::string_view, Enum>, kCount>& words) {
  WB_ASSIGN_OR_RETURN(const std::string word, get_text(request, field));
  if (word.empty()) return words.front().second;  // the enum's zero is absent
  for (const auto& [name, value] : words) {
    if (word == name) return value;
  }
  return Status(Code::kInvalidArgument, std::string("unknown ") + field + " \"" + word + "\"");
}

Result<StoreCompare> compare_of(const Json& request) {
  using Target = StoreCompare::Target;
  using Relation = StoreCompare::Relation;
  static constexpr std::array<std::pair<std::string_view, Target>, 5> kTargets = {
      {{"VERSION", Target::kVersion},
       {"CREATE", Target::kCreate},
       {"MOD", Target::kMod},
       {"VALUE", Target::kValue},
       {"LEASE", Target::kLease}}};
  static constexpr std::array<std::pair<std::string_view, Relation>, 4> kRelations = {
      {{"EQUAL", Relation::kEqual},
       {"GREATER", Relation::kGreater},
       {"LESS", Relation::kLess},
       {"NOT_EQUAL", Relation::kNotEqual}}};
  static constexpr std::array<const char*, 5> kFields = {"version", "create_revision",
                                                         "mod_revision", "value", "lease"};
  if (!request.is_object()) return Status(Code::kInvalidArgument, "a comparison is an object");
  StoreCompare compare;
  WB_ASSIGN_OR_RETURN(compare.key, get_bytes(request, "key"));
  WB_ASSIGN_OR_RETURN(compare.target, word_of(request, "target", kTargets));
  WB_ASSIGN_OR_RETURN(compare.relation, word_of(request, "result", kRelations));
  const char* field = kFields[static_cast<size_t>(compare.target)];
  WB_RETURN_IF_ERROR(refuse_fields(request, {"key", "target", "result", field}));
  if (compare.target == Target::kValue) {
    WB_ASSIGN_OR_RETURN(compare.value, get_bytes(request, field));
  } else {
    WB_ASSIGN_OR_RETURN(compare.number, get_int(request, field));
  }
  return compare;
}

Result<std::vector<StoreCompare>> compares_of(const Json& request) {
  std::vector<StoreCompare> compares;
  WB_ASSIGN_OR_RETURN(const Json* array, get_array(request, "compare"));
  if (array == nullptr) return compares;
  if (array->size() > kMaxTxnOps) {
    return Status(Code::kInvalidArgument, "etcdserver: too many operations in txn request");
  }
  for (const Json& entry : *array) {
    WB_ASSIGN_OR_RETURN(StoreCompare compare, compare_of(entry));
    compares.push_back(std::move(compare));
  }
  return compares;
}

Json items_json(const std::vector<StoreItem>& items) {
  Json kvs = Json::array();
  for (const StoreItem& item : items) kvs.push_back(item_json(item));
  return kvs;
}

Json range_json(const StoreState& state, const std::vector<StoreItem>& items) {
  Json reply{{"header", header(state)}};
  if (!items.empty()) reply["kvs"] = items_json(items);
  wire::put_int(&reply, "count", static_cast<int64_t>(items.size()));
  return reply;
}

Result<Json> serve_put(StoreState* state, const Json& request) {
  WB_ASSIGN_OR_RETURN(StoreOp op, put_op(request));
  WB_RETURN_IF_ERROR(state->txn({}, {std::move(op)}, {}).status());
  return Json{{"header", header(*state)}};
}

Result<Json> serve_range(StoreState* state, const Json& request) {
  WB_RETURN_IF_ERROR(refuse_fields(request, {"key", "range_end", "limit", "serializable"}));
  WB_ASSIGN_OR_RETURN(const StoreRange range, range_of(request));
  WB_ASSIGN_OR_RETURN(const int64_t limit, get_int(request, "limit"));
  if (range.begin.empty()) {
    return Status(Code::kInvalidArgument, "etcdserver: key is not provided");
  }
  const auto shown = static_cast<size_t>(std::max<int64_t>(limit, 0));  // 0: all
  WB_ASSIGN_OR_RETURN(const std::vector<StoreItem> items, state->range(range, shown));
  const size_t count = state->count(range);
  Json reply = range_json(*state, items);
  wire::put_int(&reply, "count", static_cast<int64_t>(count));
  wire::put_bool(&reply, "more", items.size() < count);
  return reply;
}

Result<Json> serve_delete(StoreState* state, const Json& request) {
  WB_ASSIGN_OR_RETURN(StoreOp op, range_op(request, StoreOp::Kind::kDelete));
  WB_ASSIGN_OR_RETURN(const StoreTxnResult result, state->txn({}, {std::move(op)}, {}));
  Json reply{{"header", header(*state)}};
  wire::put_int(&reply, "deleted", result.results.front().deleted);
  return reply;
}

Result<Json> serve_txn(StoreState* state, const Json& request) {
  WB_RETURN_IF_ERROR(refuse_fields(request, {"compare", "success", "failure"}));
  WB_ASSIGN_OR_RETURN(const auto compares, compares_of(request));
  WB_ASSIGN_OR_RETURN(const auto success, ops_of(request, "success"));
  WB_ASSIGN_OR_RETURN(const auto failure, ops_of(request, "failure"));
  WB_ASSIGN_OR_RETURN(const StoreTxnResult result, state->txn(compares, success, failure));
  Json reply{{"header", header(*state)}};
  wire::put_bool(&reply, "succeeded", result.succeeded);
  Json responses = Json::array();
  for (size_t i = 0; i < result.results.size(); ++i) {
    const StoreOp::Kind kind = (result.succeeded ? success : failure)[i].kind;
    Json body{{"header", {{"revision", std::to_string(state->revision())}}}};
    if (kind == StoreOp::Kind::kRange) body = range_json(*state, result.results[i].items);
    wire::put_int(&body, "deleted", result.results[i].deleted);
    const char* name = kind == StoreOp::Kind::kPut      ? "response_put"
                       : kind == StoreOp::Kind::kDelete ? "response_delete_range"
                                                        : "response_range";
    responses.push_back(Json{{name, std::move(body)}});
  }
  if (!responses.empty()) reply["responses"] = std::move(responses);
  return reply;
}

StoreState::Time now() { return std::chrono::steady_clock::now(); }

Result<Json> serve_grant(StoreState* state, const Json& request) {
  WB_ASSIGN_OR_RETURN(const int64_t ttl, get_int(request, "TTL"));
  WB_ASSIGN_OR_RETURN(const int64_t id, get_int(request, "ID"));
  WB_ASSIGN_OR_RETURN(const StoreState::Lease lease, state->grant(id, ttl, now()));
  Json reply{{"header", header(*state)}};
  wire::put_int(&reply, "ID", lease.id);
  wire::put_int(&reply, "TTL", lease.ttl);
  return reply;
}

Result<Json> serve_keep_alive(StoreState* state, const Json& request) {
  WB_ASSIGN_OR_RETURN(const int64_t id, get_int(request, "ID"));
  const auto lease = state->keep_alive(id, now());
  Json result{{"header", header(*state)}};
  wire::put_int(&result, "ID", id);
  // A lease that is gone has no TTL; the call succeeds all the same.
  if (lease) wire::put_int(&result, "TTL", lease->ttl);
  return Json{{"result", std::move(result)}};
}

Result<Json> serve_revoke(StoreState* state, const Json& request) {
  WB_ASSIGN_OR_RETURN(const int64_t id, get_int(request, "ID"));
  WB_RETURN_IF_ERROR(state->revoke(id));
  return Json{{"header", header(*state)}};
}

Result<Json> serve_compaction(StoreState* state, const Json& request) {
  WB_ASSIGN_OR_RETURN(const int64_t revision, get_int(request, "revision"));
  WB_RETURN_IF_ERROR(state->compact(revision));
  return Json{{"header", header(*state)}};
}

struct Route {
  std::string_view target;
  Result<Json> (*serve)(StoreState*, const Json&);
};
constexpr std::array<Route, 9> kRoutes = {{
    {"/v3/kv/put", serve_put},
    {"/v3/kv/range", serve_range},
    {"/v3/kv/deleterange", serve_delete},
    {"/v3/kv/txn", serve_txn},
    {"/v3/kv/compaction", serve_compaction},
    {"/v3/lease/grant", serve_grant},
    {"/v3/lease/keepalive", serve_keep_alive},
    {"/v3/lease/revoke", serve_revoke},
    {"/v3/kv/lease/revoke", serve_revoke},
}};

// Holds a place in the history, not events: a reader that is too slow loses its place and is told
// from where the history still is.
class WatchStream final : public HttpStream {
 public:
  WatchStream(const StoreState* state, StoreRange range, int64_t from)
      : state_(state), range_(std::move(range)), from_(from) {}

  std::string next(bool* last) override {
    if (!created_) {
      created_ = true;
      return line(Json{{"header", header(*state_)}, {"created", true}});
    }
    if (from_ < state_->first_watchable()) {
      *last = true;
      Json result{{"header", header(*state_)}, {"canceled", true}};
      wire::put_int(&result, "compact_revision", state_->first_watchable());
      return line(result);
    }
    Json events = Json::array();
    for (const StoreEvent* event : state_->events(range_, &from_, kWatchBatchBytes)) {
      Json entry{{"kv", item_json(event->item)}};
      if (event->is_delete) entry["type"] = "DELETE";
      events.push_back(std::move(entry));
    }
    if (events.empty()) return {};
    return line(Json{{"header", header(*state_)}, {"events", std::move(events)}});
  }

 private:
  static std::string line(const Json& result) { return Json{{"result", result}}.dump() + "\n"; }

  const StoreState* state_;
  const StoreRange range_;
  int64_t from_;
  bool created_ = false;
};

Result<std::unique_ptr<HttpStream>> open_watch(const StoreState* state, const Json& request) {
  WB_ASSIGN_OR_RETURN(const Json* create, get_object(request, "create_request"));
  if (create == nullptr) {
    return Status(Code::kUnsupported, "the embedded store serves create_request only");
  }
  WB_RETURN_IF_ERROR(refuse_fields(*create, {"key", "range_end", "start_revision"}));
  WB_ASSIGN_OR_RETURN(StoreRange range, range_of(*create));
  WB_ASSIGN_OR_RETURN(int64_t from, get_int(*create, "start_revision"));
  if (from <= 0) from = state->revision() + 1;
  return std::unique_ptr<HttpStream>(std::make_unique<WatchStream>(state, std::move(range), from));
}

}  // namespace

std::string store_error_body(int http_status, std::string_view sentence) {
  return error_body(grpc_of_http(http_status), sentence);
}

HttpAnswer StoreApi::handle(std::string_view target, const std::string& body) {
  const auto request = wire::parse_object(body);
  if (!request.ok()) return error_answer(request.status());
  HttpAnswer answer;
  if (target == "/v3/watch") {
    auto stream = open_watch(&state_, *request);
    if (!stream.ok()) return error_answer(stream.status());
    answer.stream = std::move(*stream);
    return answer;
  }
  for (const Route& route : kRoutes) {
    if (route.target != target) continue;
    const auto reply = route.serve(&state_, *request);
    if (!reply.ok()) return error_answer(reply.status());
    answer.body = reply->dump();
    return answer;
  }
  return error_answer(Status(Code::kNotFound, "Not Found"));
}

bool StoreApi::take_changed() {
  const bool changed = state_.revision() != seen_revision_;
  seen_revision_ = state_.revision();
  return changed;
}

void StoreApi::expire() { state_.expire(std::chrono::steady_clock::now()); }

}  // namespace wb
