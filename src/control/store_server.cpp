#include "control/store_server.h"

#include <charconv>

#include "control/http_client.h"
#include "control/http_server.h"
#include "control/store_api.h"

namespace wb {
namespace {

// A request of etcd's largest size in base64, with room for its JSON.
constexpr uint64_t kMaxBody = 4u << 20;
constexpr std::chrono::milliseconds kExpiryPeriod{100};

class Store final : public StoreServer {
 public:
  Store() : api_(StoreLimits{}) {}

  ~Store() override { server_.reset(); }  // its streams refer to api_

  Status start(const StoreServerOptions& options) {
    HttpServerOptions http;
    http.host = options.host;
    http.port = options.port;
    http.token = options.token;
    http.max_body = kMaxBody;
    http.error_body = store_error_body;
    const auto serve = [this](std::string_view target, const std::string& body) {
      HttpAnswer answer = api_.handle(target, body);
      answer.wake_streams = api_.take_changed();
      return answer;
    };
    WB_ASSIGN_OR_RETURN(server_, HttpServer::listen(std::move(http), serve));
    server_->every(kExpiryPeriod, [this] {
      api_.expire();
      return api_.take_changed();
    });
    return Status();
  }

  std::string endpoint() const override { return "http://" + server_->address(); }
  Status close(Deadline deadline) override { return server_->close(deadline); }

 private:
  StoreApi api_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::listen(const StoreServerOptions& options) {
  WB_RETURN_IF_ERROR(check_token_words(options.token));
  auto store = std::make_unique<Store>();
  WB_RETURN_IF_ERROR(store->start(options));
  return std::unique_ptr<StoreServer>(std::move(store));
}

Result<std::unique_ptr<StoreServer>> StoreServer::listen(std::string_view host_port,
                                                         std::string token) {
  WB_ASSIGN_OR_RETURN(const HttpEndpoint where, parse_host_port(host_port));
  StoreServerOptions options;
  options.host = where.host;
  const auto [end, error] =
      std::from_chars(where.port.data(), where.port.data() + where.port.size(), options.port);
  if (error != std::errc()) return Status(Code::kInternal, "a port that was checked is none");
  options.token = std::move(token);
  return listen(options);
}

}  // namespace wb
