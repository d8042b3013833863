#include "control/store_pool.h"

#include <algorithm>

#include "layout/utf8.h"

namespace wb {
namespace {

using wire::Json;

constexpr size_t kMaxIdle = 16;
// Shorter than a server keeps a silent connection, so that a request rarely meets its closing.
constexpr std::chrono::seconds kMaxIdleTime{10};
constexpr size_t kMaxEndpoints = 64;
constexpr uint64_t kMaxReply = 64u << 20;
// Asked for to see whether the store answers and takes our credentials.
constexpr std::string_view kProbeKey = "/weightbridge/";

}  // namespace

Result<std::unique_ptr<StorePool>> StorePool::open(StoreOptions options, Deadline deadline) {
  std::unique_ptr<StorePool> pool(new StorePool(std::move(options)));
  WB_RETURN_IF_ERROR(pool->prepare());
  WB_RETURN_IF_ERROR(pool->probe(deadline));
  return pool;
}

Status StorePool::prepare() {
  if (options_.endpoints.empty() || options_.endpoints.size() > kMaxEndpoints) {
    return Status(Code::kInvalidArgument, "a store has 1 to 64 endpoints");
  }
  WB_RETURN_IF_ERROR(check_token_words(options_.token));
  if (!is_utf8(options_.user) || !is_utf8(options_.password)) {
    return Status(Code::kInvalidArgument, "the store's user and password must be UTF-8");
  }
  if (options_.user.empty() && !options_.password.empty()) {
    return Status(Code::kInvalidArgument, "a store password without a user");
  }
  bool tls = false;
  for (const std::string& url : options_.endpoints) {
    WB_ASSIGN_OR_RETURN(HttpEndpoint endpoint, parse_http_url(url));
    tls = tls || endpoint.tls;
    endpoints_.push_back(std::move(endpoint));
  }
  if (tls) {
    WB_ASSIGN_OR_RETURN(trust_, TlsTrust::load(options_.ca_file));
  } else if (!options_.ca_file.empty()) {
    return Status(Code::kInvalidArgument,
                  "certificates are given, but no endpoint is https: nothing would be encrypted");
  }
  return Status();
}

// A user logs in before anything else. A job token is shown only to a store that asks for one:
// etcd refuses any request with a token that it has not issued, also when it needs none.
Status StorePool::probe(Deadline deadline) {
  if (!options_.user.empty()) WB_RETURN_IF_ERROR(log_in_with_password(deadline));
  Json request = Json::object();
  wire::put_bytes(&request, "key", kProbeKey);
  const Status status = read("/v3/kv/range", request, deadline).status();
  // A user whose role does not cover this key is a known user all the same.
  return status.code() == Code::kPermission ? Status() : status;
}

Status StorePool::log_in_with_password(Deadline deadline) {
  const Json request{{"name", options_.user}, {"password", options_.password}};
  const auto reply = call("/v3/auth/authenticate", request, true, false, deadline);
  if (reply.status().code() == Code::kFailedPrecondition) {
    return Status(Code::kFailedPrecondition,
                  "the store does not use authentication, but a user was given: leave it out")
        .with_peer(reply.status().facts().peer);
  }
  WB_RETURN_IF_ERROR(reply.status());
  WB_ASSIGN_OR_RETURN(std::string token, wire::get_text(*reply, "token"));
  if (token.empty() || !check_token_words(token).ok()) {
    return Status(Code::kBadData, "the store's answer to the login has no usable token");
  }
  set_credentials(std::move(token));
  return Status();
}

Status StorePool::log_in_again(uint64_t login, Deadline deadline) {
  const std::lock_guard one_at_a_time(login_mutex_);
  const Credentials now = credentials();
  if (now.login != login) return Status();
  if (!options_.user.empty()) return log_in_with_password(deadline);
  if (options_.token.empty()) {
    return Status(Code::kUnauthenticated, "the store asks for credentials and none were given");
  }
  if (!now.authorization.empty()) {
    return Status(Code::kUnauthenticated, "the store refused the job token");
  }
  set_credentials("Bearer " + options_.token);
  return Status();
}

StorePool::Credentials StorePool::credentials() const {
  const std::lock_guard lock(mutex_);
  return credentials_;
}

void StorePool::set_credentials(std::string authorization) {
  const std::lock_guard lock(mutex_);
  credentials_.authorization = std::move(authorization);
  ++credentials_.login;
}

Result<StorePool::Lent> StorePool::borrow(size_t endpoint, bool fresh, Deadline deadline) {
  Lent lent;
  lent.endpoint = endpoint;
  const auto oldest = Deadline::Clock::now() - kMaxIdleTime;
  std::vector<Lent> stale;  // closed after the lock is released
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = idle_.size(); i-- > 0 && lent.connection == nullptr;) {
      Lent& at = idle_[i];
      const bool usable = at.idle_since >= oldest && at.connection->reusable();
      if (usable && (fresh || at.endpoint != endpoint)) continue;
      if (usable) {
        lent = std::move(at);
      } else {
        stale.push_back(std::move(at));
      }
      idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (lent.connection != nullptr) {
    lent.reused = true;
    lent.answered = false;
    return lent;
  }
  WB_ASSIGN_OR_RETURN(lent.connection,
                      HttpConnection::open(endpoints_[endpoint], trust_, deadline));
  return lent;
}

void StorePool::give_back(Lent lent) {
  if (lent.connection == nullptr || !lent.connection->reusable()) return;
  lent.idle_since = Deadline::Clock::now();
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kMaxIdle) idle_.push_back(std::move(lent));
}

Status StorePool::try_endpoint(size_t endpoint, bool may_repeat, const Credentials& credentials,
                               const Use& use, Progress* progress, Deadline connect_by,
                               Deadline deadline) {
  for (bool fresh = false;; fresh = true) {
    WB_ASSIGN_OR_RETURN(Lent lent, borrow(endpoint, fresh, connect_by));
    progress->sent = true;
    const Status status = use(lent, credentials, deadline);
    progress->answered = lent.answered;
    const bool reused = lent.reused;
    const bool silent =
        !lent.answered && lent.connection != nullptr && !lent.connection->reply_begun();
    give_back(std::move(lent));
    if (status.ok() || !silent || status.code() == Code::kDeadline) return status;
    // A kept connection whose server has gone since: seen only by using it. See the rule of sending
    // twice for why a change stops here.
    if (!reused || !may_repeat) return status;
  }
}

Status StorePool::with_endpoint(bool may_repeat, const Credentials& credentials, const Use& use,
                                Progress* progress, Deadline deadline) {
  const size_t first = preferred_.load();
  Status last;
  for (size_t i = 0; i < endpoints_.size(); ++i) {
    const size_t endpoint = (first + i) % endpoints_.size();
    const auto left = static_cast<int64_t>(endpoints_.size() - i);
    // One silent endpoint must leave time for those after it. A change is sent once, so its answer
    // is waited for as long as there is time.
    const Deadline share = deadline.capped(deadline.remaining() / left);
    *progress = Progress{};
    last = try_endpoint(endpoint, may_repeat, credentials, use, progress, share,
                        may_repeat ? share : deadline);
    if (last.ok() || (progress->answered && last.code() != Code::kUnavailable)) {
      preferred_ = endpoint;
      return last;
    }
    if ((progress->sent && !may_repeat) || deadline.expired()) break;
  }
  return last;
}

Status StorePool::with_login(bool may_repeat, const Use& use, Deadline deadline) {
  const Credentials with = credentials();
  Progress progress;
  Status status = with_endpoint(may_repeat, with, use, &progress, deadline);
  // A certificate that we refuse is no answer.
  if (status.code() != Code::kUnauthenticated || !progress.answered) return status;
  // Refused before it was acted on, so it may be sent again.
  WB_RETURN_IF_ERROR(log_in_again(with.login, deadline));
  return with_endpoint(may_repeat, credentials(), use, &progress, deadline);
}

Result<Json> StorePool::call(std::string_view target, const Json& request, bool may_repeat,
                             bool logged_in, Deadline deadline) {
  const std::string body = request.dump();
  Json answer;
  const Use use = [&](Lent& lent, const Credentials& with, Deadline by) -> Status {
    HttpCall call;
    call.target = target;
    call.authorization = with.authorization;
    call.body = body;
    call.max_reply = kMaxReply;
    WB_ASSIGN_OR_RETURN(const HttpReply reply, lent.connection->call(call, by));
    lent.answered = true;
    const std::string address = endpoints_[lent.endpoint].address();
    auto json = wire::parse_object(reply.body);
    if (reply.status != 200) {
      return store_error(reply.status, json.ok() ? *json : Json::object(), address);
    }
    if (!json.ok()) {
      return Status(Code::kBadData, "the store's answer is malformed: " + json.status().message())
          .with_peer(address);
    }
    answer = std::move(*json);
    return Status();
  };
  Progress progress;
  const Status status = logged_in
                            ? with_login(may_repeat, use, deadline)
                            : with_endpoint(may_repeat, Credentials{}, use, &progress, deadline);
  if (!status.ok()) return status;
  return answer;
}

Result<Json> StorePool::read(std::string_view target, const Json& request, Deadline deadline) {
  return call(target, request, true, true, deadline);
}

Result<Json> StorePool::write(std::string_view target, const Json& request, Deadline deadline) {
  return call(target, request, false, true, deadline);
}

Result<StoreStream> StorePool::open_stream(std::string_view target, const Json& request,
                                           Deadline deadline) {
  const std::string body = request.dump();
  StoreStream stream;
  const Use use = [&](Lent& lent, const Credentials& with, Deadline by) -> Status {
    HttpCall call;
    call.target = target;
    call.authorization = with.authorization;
    call.body = body;
    call.max_reply = kMaxReply;
    WB_ASSIGN_OR_RETURN(const int http_status, lent.connection->open_stream(call, by));
    lent.answered = true;
    stream.address = endpoints_[lent.endpoint].address();
    stream.login = with.login;
    if (http_status == 200) {
      stream.connection = std::move(lent.connection);
      return Status();
    }
    Json error = Json::object();
    const auto text = lent.connection->read_stream(by);
    if (text.ok()) {
      if (auto parsed = wire::parse_object(*text); parsed.ok()) error = std::move(*parsed);
    }
    lent.connection.reset();
    return store_error(http_status, error, stream.address);
  };
  WB_RETURN_IF_ERROR(with_login(true, use, deadline));
  return stream;
}

}  // namespace wb
