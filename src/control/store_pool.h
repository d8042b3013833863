// Connections to the endpoints of a store: reuse, the next endpoint when one cannot be reached,
// credentials, and what may be sent twice.
//
// The rule of sending twice. A request that changes something is sent again only when the store
// cannot have acted on it: no connection was made, or the store refused the credentials. When a
// connection ends after the request was sent and no answer came, the store may or may not have
// acted, so the caller gets kUnavailable (or kDeadline) and must look before it acts again.
// Requests that change nothing, or nothing more when they are repeated, are sent to the next
// endpoint.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "control/http_client.h"
#include "control/store_client.h"
#include "control/wire.h"

namespace wb {

// The error that the store stated: an error object (fields code or grpc_code, message or error).
Status store_error(int http_status, const wire::Json& error, const std::string& address);
// The error behind the reason of a cancelled watch.
Status store_reason_error(const std::string& reason);

struct StoreStream {
  std::unique_ptr<HttpConnection> connection;
  std::string address;
  uint64_t login = 0;  // which login's credentials it was opened with
};

// Thread-safe: a call has its connection to itself.
class StorePool {
 public:
  // Reaches one endpoint and logs in.
  static Result<std::unique_ptr<StorePool>> open(StoreOptions options, Deadline deadline);

  Result<wire::Json> read(std::string_view target, const wire::Json& request, Deadline deadline);
  Result<wire::Json> write(std::string_view target, const wire::Json& request, Deadline deadline);
  // For requests that may be sent twice.
  Result<StoreStream> open_stream(std::string_view target, const wire::Json& request,
                                  Deadline deadline);
  // Unless another thread already has since `login`.
  Status log_in_again(uint64_t login, Deadline deadline);

 private:
  // A connection in use by one call.
  struct Lent {
    std::unique_ptr<HttpConnection> connection;
    size_t endpoint = 0;
    bool reused = false;
    bool answered = false;  // the store gave an answer, be it an error
    Deadline::Clock::time_point idle_since{};
  };
  struct Credentials {
    std::string authorization;
    uint64_t login = 0;
  };
  // How far a request came at the endpoint that was tried last.
  struct Progress {
    bool sent = false;      // a byte of it may have reached the store
    bool answered = false;  // the store gave an answer, be it an error
  };
  using Use = std::function<Status(Lent&, const Credentials&, Deadline)>;

  explicit StorePool(StoreOptions options) : options_(std::move(options)) {}
  Status prepare();
  Status probe(Deadline deadline);
  Status log_in_with_password(Deadline deadline);
  Credentials credentials() const;
  void set_credentials(std::string authorization);
  Result<Lent> borrow(size_t endpoint, bool fresh, Deadline deadline);
  void give_back(Lent lent);
  Status with_login(bool may_repeat, const Use& use, Deadline deadline);
  Status with_endpoint(bool may_repeat, const Credentials& credentials, const Use& use,
                       Progress* progress, Deadline deadline);
  Status try_endpoint(size_t endpoint, bool may_repeat, const Credentials& credentials,
                      const Use& use, Progress* progress, Deadline connect_by, Deadline deadline);
  // `logged_in` false: without credentials (to obtain them).
  Result<wire::Json> call(std::string_view target, const wire::Json& request, bool may_repeat,
                          bool logged_in, Deadline deadline);

  const StoreOptions options_;
  std::vector<HttpEndpoint> endpoints_;
  std::shared_ptr<TlsTrust> trust_;
  std::atomic<size_t> preferred_{0};  // the endpoint that answered last

  mutable std::mutex mutex_;
  Credentials credentials_;
  std::vector<Lent> idle_;
  std::mutex login_mutex_;  // one login at a time; taken before mutex_
};

}  // namespace wb
