#include "control/peer.h"

#include <atomic>

#include "control/http_client.h"
#include "control/http_server.h"
#include "control/wire.h"

namespace wb {
namespace {

using wire::Json;

constexpr std::string_view kPrefix = "/weightbridge/v1/";
constexpr uint64_t kMaxAnswer = 64u << 20;

// A handler's own error travels with this status, and the body of error_json(). Whatever the server
// says by itself (401, 404, 413) has another one.
constexpr int kHandlerError = 500;

std::string error_json(const Status& status) {
  const Facts& facts = status.facts();
  return Json{{"code", static_cast<int32_t>(status.code())},
              {"message", status.message()},
              {"peer", facts.peer},
              {"tensor", facts.tensor},
              {"errno", facts.sys_errno},
              {"vendor", facts.vendor}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Status malformed(std::string_view address, const std::string& why) {
  return Status(Code::kBadData, "peer " + std::string(address) + " sent a malformed error: " + why)
      .with_peer(std::string(address));
}

// The error that the peer reported; its own peer fact stays, for it may name a third worker.
Status parse_error(std::string_view address, std::string_view body) {
  const auto json = wire::parse_object(body);
  if (!json.ok()) return malformed(address, json.status().message());
  const auto code = wire::get_int(*json, "code");
  const auto message = wire::get_text(*json, "message");
  const auto peer = wire::get_text(*json, "peer");
  const auto tensor = wire::get_text(*json, "tensor");
  const auto error = wire::get_int(*json, "errno");
  const auto vendor = wire::get_int(*json, "vendor");
  for (const Status& status : {code.status(), message.status(), peer.status(), tensor.status(),
                               error.status(), vendor.status()}) {
    if (!status.ok()) return malformed(address, status.message());
  }
  if (*code <= static_cast<int64_t>(Code::kOk) || *code > static_cast<int64_t>(Code::kInternal)) {
    return malformed(address, "unknown code " + std::to_string(*code));
  }
  if (*error < 0 || *error > 4095) return malformed(address, "errno out of range");
  return Status(static_cast<Code>(*code), *message)
      .with_peer(peer->empty() ? std::string(address) : *peer)
      .with_tensor(*tensor)
      .with_errno(static_cast<int>(*error))
      .with_vendor(*vendor);
}

Status server_error(std::string_view address, std::string_view topic, const HttpReply& reply) {
  const auto say = [&](Code code, const std::string& sentence) {
    return Status(code, "peer " + std::string(address) + " " + sentence)
        .with_peer(std::string(address))
        .with_vendor(reply.status);
  };
  switch (reply.status) {
    case 401:
      return say(Code::kUnauthenticated, "refused the job token");
    case 404:
      return say(Code::kNotFound, "has no topic \"" + std::string(topic) + "\"");
    case 413:
      return say(Code::kInvalidArgument, "refused the payload: it is too large");
    case 503:
      return say(Code::kUnavailable, "is closing");
    default:
      return say(Code::kBadData, "answered with HTTP status " + std::to_string(reply.status));
  }
}

bool topic_words(std::string_view topic) {
  if (topic.empty() || topic.size() > 128) return false;
  return topic.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_/") ==
         std::string_view::npos;
}

class Endpoint final : public PeerServer {
 public:
  explicit Endpoint(std::map<std::string, PeerHandler, std::less<>> topics)
      : topics_(std::move(topics)) {}
  ~Endpoint() override { server_.reset(); }  // its handlers refer to topics_

  Status start(HttpServerOptions options) {
    const auto serve = [this](std::string_view target, const std::string& body) {
      return handle(target, body);
    };
    WB_ASSIGN_OR_RETURN(server_, HttpServer::listen(std::move(options), serve));
    return Status();
  }

  std::string address() const override { return server_->address(); }
  Status close(Deadline deadline) override { return server_->close(deadline); }

 private:
  HttpAnswer handle(std::string_view target, const std::string& body) const {
    HttpAnswer answer;
    const bool ours = target.substr(0, kPrefix.size()) == kPrefix;
    const auto at = ours ? topics_.find(target.substr(kPrefix.size())) : topics_.end();
    if (at == topics_.end()) {
      answer.status = 404;
      return answer;
    }
    auto result = at->second(body);
    if (!result.ok()) {
      answer.status = kHandlerError;
      answer.body = error_json(result.status());
      return answer;
    }
    if (result->size() > kMaxAnswer) {
      answer.status = kHandlerError;
      answer.body =
          error_json(Status(Code::kInternal, "the answer is over the size that peers take"));
      return answer;
    }
    answer.content_type = "application/octet-stream";
    answer.body = std::move(*result);
    return answer;
  }

  const std::map<std::string, PeerHandler, std::less<>> topics_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace

Result<std::unique_ptr<PeerServer>> PeerServer::listen(PeerServerOptions options) {
  if (options.token.empty()) {
    return Status(Code::kInvalidArgument, "a peer endpoint needs the job token");
  }
  WB_RETURN_IF_ERROR(check_token_words(options.token));
  for (const std::string_view any : {"0.0.0.0", "::", ""}) {
    if (options.host == any) {
      return Status(
          Code::kInvalidArgument,
          "a peer endpoint needs an address that peers can reach, not \"" + options.host + "\"");
    }
  }
  for (const auto& [topic, handler] : options.topics) {
    if (!topic_words(topic) || !handler) {
      return Status(Code::kInvalidArgument, "topic \"" + topic + "\" is not [a-z0-9-_/]{1,128}");
    }
  }
  HttpServerOptions http;
  http.host = std::move(options.host);
  http.port = options.port;
  http.token = std::move(options.token);
  http.max_body = options.max_payload;
  http.handler_thread = true;
  auto endpoint = std::make_unique<Endpoint>(std::move(options.topics));
  WB_RETURN_IF_ERROR(endpoint->start(std::move(http)));
  return std::unique_ptr<PeerServer>(std::move(endpoint));
}

Result<std::string> peer_call(std::string_view address, std::string_view token,
                              std::string_view topic, std::string_view payload, Deadline deadline) {
  if (token.empty()) return Status(Code::kInvalidArgument, "a peer call needs the job token");
  WB_RETURN_IF_ERROR(check_token_words(token));
  if (!topic_words(topic)) {
    return Status(Code::kInvalidArgument, "not a topic: \"" + std::string(topic) + "\"");
  }
  WB_ASSIGN_OR_RETURN(const HttpEndpoint endpoint, parse_host_port(address));
  WB_ASSIGN_OR_RETURN(const auto connection, HttpConnection::open(endpoint, nullptr, deadline));
  const std::string target = std::string(kPrefix) + std::string(topic);
  const std::string authorization = "Bearer " + std::string(token);
  HttpCall call;
  call.target = target;
  call.authorization = authorization;
  call.body = payload;
  call.content_type = "application/octet-stream";
  call.max_reply = kMaxAnswer;
  WB_ASSIGN_OR_RETURN(HttpReply reply, connection->call(call, deadline));
  if (reply.status == 200) return std::move(reply.body);
  if (reply.status == kHandlerError) return parse_error(address, reply.body);
  return server_error(address, topic, reply);
}

}  // namespace wb
