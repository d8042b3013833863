// What the embedded store must stand beside its semantics: many watches, slow and stuck clients,
// wrong tokens.
#include "control/store_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends.h"
#include "control/http_server.h"

namespace wb {
namespace {

using test::milliseconds;
using test::soon;

std::unique_ptr<StoreServer> listen(const std::string& token = "") {
  StoreServerOptions options;
  options.token = token;
  auto server = StoreServer::listen(options);
  EXPECT_TRUE(server.ok()) << server.status().to_string();
  return server.ok() ? std::move(*server) : nullptr;
}

std::unique_ptr<StoreClient> connect(const StoreServer& server, const std::string& token = "") {
  StoreOptions options;
  options.endpoints = {server.endpoint()};
  options.token = token;
  auto client = StoreClient::connect(options, soon());
  EXPECT_TRUE(client.ok()) << client.status().to_string();
  return client.ok() ? std::move(*client) : nullptr;
}

// A plain socket to "http://127.0.0.1:PORT", for what no HTTP client would do.
class RawClient {
 public:
  explicit RawClient(const std::string& endpoint) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port =
        htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const timeval limit{30, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~RawClient() { ::close(fd_); }
  void send(const std::string& text) const {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Until the server closes; whether it did (and the wait did not end by itself).
  bool read_to_end(std::string* text) const {
    char bytes[4096];
    for (;;) {
      const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
      if (got < 0) return false;
      text->append(bytes, static_cast<size_t>(got));
    }
  }

 private:
  int fd_ = -1;
};

TEST(StoreServer, HoldsThreeHundredWatchesAndStillAnswers) {
  const auto server = listen();
  const auto client = connect(*server);
  std::vector<std::unique_ptr<Watch>> watches;
  for (int i = 0; i < 300; ++i) {
    auto watch = client->watch("k", 0, soon());
    ASSERT_TRUE(watch.ok()) << i << ": " << watch.status().to_string();
    watches.push_back(std::move(*watch));
  }
  ASSERT_TRUE(client->put("k", "v", 0, soon()).ok());
  for (const auto& watch : watches) {
    const auto events = watch->next(soon());
    ASSERT_TRUE(events.ok()) << events.status().to_string();
    EXPECT_EQ(events->front().item.value, "v");
  }
}

TEST(StoreServer, AWrongTokenIsRefusedBeforeTheBodyIsRead) {
  const auto server = listen("right");
  StoreOptions options;
  options.endpoints = {server->endpoint()};
  for (const char* token : {"", "wrong", "righ", "rightt"}) {
    options.token = token;
    EXPECT_EQ(StoreClient::connect(options, soon()).status().code(), Code::kUnauthenticated);
  }
  const RawClient raw(server->endpoint());
  raw.send("POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nonly a part");
  std::string answer;
  EXPECT_TRUE(raw.read_to_end(&answer));
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 401");
  EXPECT_NE(connect(*server, "right"), nullptr);
}

TEST(StoreServer, APortInUseIsBusy) {
  const auto first = listen();
  StoreServerOptions options;
  const std::string endpoint = first->endpoint();
  options.port = static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
  EXPECT_EQ(StoreServer::listen(options).status().code(), Code::kBusy);
  ASSERT_TRUE(first->close(soon()).ok());
}

TEST(StoreServer, OversizedAndMalformedRequestsAreAnswered) {
  const auto server = listen("t");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"POST /v3/kv/put HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n"
       "Content-Length: 99999999999\r\n\r\n",
       "413"},
      {"nonsense\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\r\n", "405"},
      {"POST / HTTP/1.1\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n", "400"}};
  for (const auto& [request, status] : cases) {
    const RawClient raw(server->endpoint());
    raw.send(request);
    std::string answer;
    EXPECT_TRUE(raw.read_to_end(&answer));
    EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 " + status) << request.substr(0, 60);
  }
  EXPECT_NE(connect(*server, "t"), nullptr);
}

TEST(StoreServer, FieldsThatAreNotServedAreNotPassedOver) {
  const auto server = listen();
  const auto endpoint = parse_http_url(server->endpoint());
  auto connection = HttpConnection::open(*endpoint, nullptr, soon());
  ASSERT_TRUE(connection.ok());
  HttpCall call;
  call.target = "/v3/kv/range";
  call.body = R"({"key":"YQ==","revision":"3"})";
  EXPECT_EQ((*connection)->call(call, soon())->status, 501);
  call.target = "/v3/kv/put";
  call.body = R"({"key":"YQ==","value":"YQ==","ignore_lease":true})";
  EXPECT_EQ((*connection)->call(call, soon())->status, 501);
}

// Few bytes that ask for many: 128 times the whole store.
TEST(StoreServer, AnAnswerOverTheLimitIsRefusedAndNothingIsDone) {
  const auto server = listen();
  const auto client = connect(*server);
  const std::string value(1u << 20, 'v');
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(client->put("k" + std::to_string(i), value, 0, soon()).ok());
  }
  auto connection = HttpConnection::open(*parse_http_url(server->endpoint()), nullptr, soon());
  ASSERT_TRUE(connection.ok());
  const auto ask = [&](int ranges) {
    std::string body = R"({"success":[{"request_put":{"key":"bmV3","value":"MQ=="}})";
    for (int i = 0; i < ranges; ++i) {
      body += R"(,{"request_range":{"key":"AA==","range_end":"AA=="}})";
    }
    body += "]}";
    HttpCall call;
    call.target = "/v3/kv/txn";
    call.body = body;
    call.max_reply = 64u << 20;
    auto reply = (*connection)->call(call, soon());
    EXPECT_TRUE(reply.ok()) << reply.status().to_string();
    return reply.ok() ? *reply : HttpReply{};
  };
  const HttpReply refused = ask(127);
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.body.find("\"code\":8"), std::string::npos) << refused.body.substr(0, 200);
  EXPECT_FALSE(client->get("new", soon())->has_value());
  const HttpReply served = ask(2);
  EXPECT_EQ(served.status, 200);
  EXPECT_GT(served.body.size(), 2 * 16 * value.size());
  const auto all = client->range("", soon());
  ASSERT_TRUE(all.ok()) << all.status().to_string();
  EXPECT_EQ(all->items.size(), 17u);
  // A store that has grown past one answer says so, and serves its parts.
  for (int i = 16; i < 48; ++i) {
    ASSERT_TRUE(client->put("k" + std::to_string(i), value, 0, soon()).ok());
  }
  EXPECT_EQ(client->range("", soon()).status().code(), Code::kNoMemory);
  EXPECT_EQ(client->range("k1", soon())->items.size(), 11u);
}

TEST(StoreServer, DeeplyNestedRequestsAreRefused) {
  const auto server = listen();
  auto connection = HttpConnection::open(*parse_http_url(server->endpoint()), nullptr, soon());
  ASSERT_TRUE(connection.ok());
  const std::string body =
      "{\"compare\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  HttpCall call;
  call.target = "/v3/kv/txn";
  call.body = body;
  EXPECT_EQ((*connection)->call(call, soon())->status, 400);
}

// A reader that takes nothing: the store keeps no queue for it and the writer is not held up. When
// it reads again it gets every event in order, is told that it fell behind, or finds its connection
// closed (on a machine so slow that the store's patience ended first).
TEST(StoreServer, ASlowWatcherHoldsNobodyUp) {
  constexpr int kPuts = 50;
  const auto server = listen();
  const auto client = connect(*server);
  const auto watch = client->watch("s", 0, soon());
  ASSERT_TRUE(watch.ok());
  const std::string value(150'000, 'v');  // in all more than a socket's buffers take
  int64_t revision = 0;
  for (int i = 0; i < kPuts; ++i) {
    const auto put = client->put("s", value, 0, soon());
    ASSERT_TRUE(put.ok()) << put.status().to_string();
    revision = *put;
  }
  int64_t seen = revision - kPuts;
  while (seen != revision) {
    const auto events = (*watch)->next(soon());
    if (!events.ok()) {
      EXPECT_TRUE(events.status().code() == Code::kMismatch ||
                  events.status().code() == Code::kUnavailable)
          << events.status().to_string();
      return;
    }
    for (const WatchEvent& event : *events) EXPECT_EQ(event.item.mod_revision, ++seen);
  }
}

TEST(StoreServer, ClosingEndsWatches) {
  const auto server = listen();
  const auto client = connect(*server);
  const auto watch = client->watch("k", 0, soon());
  ASSERT_TRUE(watch.ok());
  ASSERT_TRUE(server->close(soon()).ok());
  EXPECT_EQ((*watch)->next(soon()).status().code(), Code::kUnavailable);
}

TEST(HttpServer, HalfOpenConnectionsTimeOut) {
  HttpServerOptions options;
  options.host = "127.0.0.1";
  options.max_body = 1000;
  options.patience = milliseconds(100);
  const auto server = HttpServer::listen(
      options, [](std::string_view, const std::string&) { return HttpAnswer{}; });
  ASSERT_TRUE(server.ok());
  for (const char* start : {"", "POST / HT", "POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nab"}) {
    const RawClient raw((*server)->address());
    raw.send(start);
    std::string answer;
    EXPECT_TRUE(raw.read_to_end(&answer)) << start;
  }
}

// `patience` is longer than a RawClient waits: only the shorter time for strangers can close.
TEST(HttpServer, AStrangerIsNotWaitedForAsLongAsAClient) {
  HttpServerOptions options;
  options.host = "127.0.0.1";
  options.token = "t";
  options.max_body = 1000;
  options.patience = std::chrono::minutes(10);
  options.introduction = milliseconds(200);
  const auto server = HttpServer::listen(
      options, [](std::string_view, const std::string&) { return HttpAnswer{}; });
  ASSERT_TRUE(server.ok());
  for (const char* start : {"", "POST / HT", "POST / HTTP/1.1\r\nAuthorization: Bearer t\r\n"}) {
    const RawClient raw((*server)->address());
    raw.send(start);
    std::string answer;
    EXPECT_TRUE(raw.read_to_end(&answer)) << start;
  }
  // One that has shown its token may take its time for the body.
  const RawClient known((*server)->address());
  known.send(
      "POST / HTTP/1.1\r\nAuthorization: Bearer t\r\nConnection: close\r\n"
      "Content-Length: 2\r\n\r\na");
  std::this_thread::sleep_for(milliseconds(600));
  known.send("b");
  std::string answer;
  EXPECT_TRUE(known.read_to_end(&answer));
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 200");
}

// Two servers of one process, as in a trainer that embeds the store beside its peer endpoint.
TEST(HttpServer, ConnectionsLeaveHalfOfTheDescriptors) {
  constexpr size_t kDescriptors = 64;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit small = before;
  small.rlim_cur = kDescriptors;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  HttpServerOptions options;
  options.host = "127.0.0.1";
  options.max_body = 1000;
  options.introduction = options.patience = std::chrono::minutes(10);
  const HttpHandler handler = [](std::string_view, const std::string&) { return HttpAnswer{}; };
  const auto first = HttpServer::listen(options, handler);
  const auto second = HttpServer::listen(options, handler);
  // The clients' ends need descriptors of this process, too.
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  HttpCall call;
  call.target = "/";
  std::vector<std::unique_ptr<HttpConnection>> held;
  size_t served = 0;
  for (size_t i = 0; i < kDescriptors; ++i) {
    const auto endpoint = parse_host_port((i % 2 == 0 ? *first : *second)->address());
    held.push_back(std::move(*HttpConnection::open(*endpoint, nullptr, soon())));
    if (held.back()->call(call, soon()).ok()) ++served;
  }
  EXPECT_EQ(served, kDescriptors / 2);
}

TEST(HttpServer, ConnectionsOverTheLimitAreClosedAndRoomComesBack) {
  HttpServerOptions options;
  options.host = "127.0.0.1";
  options.max_body = 1000;
  options.max_connections = 2;
  const auto server = HttpServer::listen(
      options, [](std::string_view, const std::string&) { return HttpAnswer{}; });
  ASSERT_TRUE(server.ok());
  const auto endpoint = parse_host_port((*server)->address());
  HttpCall call;
  call.target = "/";
  std::vector<std::unique_ptr<HttpConnection>> held;
  for (int i = 0; i < 2; ++i) {
    held.push_back(std::move(*HttpConnection::open(*endpoint, nullptr, soon())));
    ASSERT_TRUE(held.back()->call(call, soon()).ok());
  }
  auto third = HttpConnection::open(*endpoint, nullptr, soon());
  ASSERT_TRUE(third.ok());
  EXPECT_EQ((*third)->call(call, soon()).status().code(), Code::kUnavailable);
  held.pop_back();
  const Deadline deadline = soon();
  bool served = false;
  while (!served && !deadline.expired()) {
    auto again = HttpConnection::open(*endpoint, nullptr, soon());
    ASSERT_TRUE(again.ok());
    served = (*again)->call(call, soon()).ok();
  }
  EXPECT_TRUE(served);
}

}  // namespace
}  // namespace wb
