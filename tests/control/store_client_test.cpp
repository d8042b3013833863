// The store client against servers that fail, lie or keep silent.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "backends.h"
#include "fake_server.h"

namespace wb {
namespace {

using test::FakeServer;
using test::http_answer;
using test::milliseconds;
using test::soon;

const std::string kHeader = R"("header":{"revision":"7"})";
const std::string kFine = "{" + kHeader + "}";

std::string nested(size_t arrays) { return std::string(arrays, '[') + std::string(arrays, ']'); }

bool asks(const std::string& request, const std::string& path) {
  return request.compare(0, 6 + path.size(), "POST " + path + " ") == 0;
}

std::unique_ptr<StoreClient> connect(const std::vector<std::string>& endpoints,
                                     Deadline deadline = soon()) {
  StoreOptions options;
  options.endpoints = endpoints;
  auto client = StoreClient::connect(options, deadline);
  EXPECT_TRUE(client.ok()) << client.status().to_string();
  return client.ok() ? std::move(*client) : nullptr;
}

std::string unused_url() { return "http://127.0.0.1:" + std::to_string(test::free_port()); }

TEST(StoreClient, WordsOfTheOptionsAreChecked) {
  const auto code = [](StoreOptions options) {
    return StoreClient::connect(std::move(options), soon()).status().code();
  };
  StoreOptions options;
  EXPECT_EQ(code(options), Code::kInvalidArgument);
  for (const char* url : {"127.0.0.1:1", "ftp://127.0.0.1:1", "http://127.0.0.1", "http://:1",
                          "http://127.0.0.1:65536", "http://127.0.0.1:1/path", "http://a b:1",
                          "http://::1:5", "http://user@host:1"}) {
    options.endpoints = {url};
    EXPECT_EQ(code(options), Code::kInvalidArgument) << url;
  }
  options.endpoints = {unused_url()};
  options.token = "two words";
  EXPECT_EQ(code(options), Code::kInvalidArgument);
  options.token.clear();
  options.ca_file = "/nonexistent";
  EXPECT_EQ(code(options), Code::kInvalidArgument) << "certificates without https";
  options.endpoints = {"https://127.0.0.1:1"};
  EXPECT_EQ(code(options), Code::kInvalidArgument) << "certificates that are not there";
}

TEST(StoreClient, NobodyListens) {
  StoreOptions options;
  options.endpoints = {unused_url(), unused_url()};
  EXPECT_EQ(StoreClient::connect(options, soon()).status().code(), Code::kUnavailable);
}

TEST(StoreClient, ASilentServerEndsByTheDeadline) {
  FakeServer silent([](int, const std::string&) { return FakeServer::kSilence; });
  StoreOptions options;
  options.endpoints = {silent.url()};
  EXPECT_EQ(StoreClient::connect(options, Deadline::after(milliseconds(100))).status().code(),
            Code::kDeadline);
  options.endpoints = {"https://" + silent.address()};
  EXPECT_EQ(StoreClient::connect(options, Deadline::after(milliseconds(100))).status().code(),
            Code::kDeadline)
      << "the TLS handshake is bounded too";
}

TEST(StoreClient, TheNextEndpointIsUsed) {
  FakeServer silent([](int, const std::string&) { return FakeServer::kSilence; });
  FakeServer good([](int, const std::string&) { return http_answer(200, kFine); });
  const auto past_dead = connect({unused_url(), good.url()});
  ASSERT_NE(past_dead, nullptr);
  EXPECT_TRUE(past_dead->put("a", "b", 0, soon()).ok());
  const auto past_silent = connect({silent.url(), good.url()}, Deadline::after(milliseconds(2000)));
  ASSERT_NE(past_silent, nullptr);
  EXPECT_TRUE(past_silent->get("a", soon()).ok());
  FakeServer closing([](int, const std::string&) {
    return http_answer(503, R"({"error":"etcdserver: no leader","code":14})");
  });
  EXPECT_NE(connect({closing.url(), good.url()}), nullptr);
}

// The server ends a kept connection when the next request comes, without a word: it may or may not
// have acted.
TEST(StoreClient, AChangeIsNeverSentTwice) {
  std::atomic<int> puts{0};
  std::atomic<int> ranges{0};
  FakeServer server([&](int connection, const std::string& request) -> std::string {
    if (asks(request, "/v3/kv/put")) {
      ++puts;
      return "";
    }
    // Of the first connection only the first request is answered.
    if (ranges++ == 1 && connection == 0) return "";
    return http_answer(200, kFine);
  });
  FakeServer other([&](int, const std::string& request) {
    if (asks(request, "/v3/kv/put")) ++puts;
    return http_answer(200, kFine);
  });
  const auto client = connect({server.url(), other.url()});
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->get("a", soon()).ok()) << "a read is asked again on a fresh connection";
  EXPECT_EQ(ranges.load(), 3);
  EXPECT_EQ(client->put("a", "b", 0, soon()).status().code(), Code::kUnavailable);
  EXPECT_EQ(puts.load(), 1);
}

TEST(StoreClient, MalformedAnswersAreBadData) {
  test::SharedText answer(http_answer(200, kFine));
  FakeServer server([&](int, const std::string&) { return answer.get(); });
  const auto client = connect({server.url()});
  ASSERT_NE(client, nullptr);
  const std::vector<std::string> bodies = {
      "",
      "x",
      "[]",
      "{}",
      R"({"header":5})",
      R"({"header":{"revision":"x"}})",
      "{" + kHeader + R"(,"kvs":{}})",
      "{" + kHeader + R"(,"kvs":[5]})",
      "{" + kHeader + R"(,"kvs":[{"key":"!!"}]})",
      "{" + kHeader + R"(,"kvs":[{"key":"YQ=="}]})",
      "{" + kHeader + R"(,"kvs":[{"key":"Yg==","mod_revision":"3"}]})",
      "{" + kHeader + R"(,"kvs":[{"key":"YQ==","mod_revision":"-3"}]})",
      "{" + kHeader + R"(,"more":true})",
      "{\"header\":" + std::string(500'000, '['),
      "{" + kHeader + ",\"x\":" + nested(200'000) + "}"};
  for (const std::string& body : bodies) {
    answer = http_answer(200, body);
    EXPECT_EQ(client->get("a", soon()).status().code(), Code::kBadData) << body.substr(0, 80);
  }
  answer = http_answer(200, R"({"result":{"TTL":"5","x":)" + nested(200'000) + "}}");
  EXPECT_EQ(client->lease_keep_alive(1, soon()).status().code(), Code::kBadData);
  answer = "HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n";
  EXPECT_EQ(client->get("a", soon()).status().code(), Code::kBadData);
  EXPECT_EQ(client->watch("a", 0, soon()).status().code(), Code::kBadData);
  answer = "SSH-2.0-OpenSSH\r\n\r\n";
  EXPECT_EQ(client->get("a", soon()).status().code(), Code::kBadData);
}

TEST(StoreClient, AWatchThatTheStoreCancelsIsTyped) {
  test::SharedText lines;
  FakeServer server([&](int, const std::string& request) -> std::string {
    if (!asks(request, "/v3/watch")) return http_answer(200, kFine);
    return test::stream_head() + test::chunk(lines.get());
  });
  const auto client = connect({server.url()});
  ASSERT_NE(client, nullptr);
  const std::vector<std::pair<std::string, Code>> cases = {
      {R"({"result":{"watch_id":"-1","created":true,"canceled":true,)"
       R"("cancel_reason":"rpc error: code = Unauthenticated desc = etcdserver: invalid auth token"}})",
       Code::kUnauthenticated},
      {R"({"result":{"watch_id":"-1","created":true,"canceled":true,)"
       R"("cancel_reason":"rpc error: code = PermissionDenied desc = etcdserver: permission denied"}})",
       Code::kPermission},
      {R"({"result":{"canceled":true,"compact_revision":"9"}})", Code::kMismatch},
      {R"({"error":{"grpc_code":14,"message":"etcdserver: no leader"}})", Code::kUnavailable},
      {R"({"result":{}})", Code::kBadData},
      {R"({"result":{"created":true,"x":)" + nested(200'000) + "}}", Code::kBadData},
      {"nonsense", Code::kBadData}};
  for (const auto& [line, code] : cases) {
    lines = line + "\n";
    EXPECT_EQ(code_name(client->watch("a", 0, soon()).status().code()), code_name(code))
        << line.substr(0, 200);
  }
  lines = R"({"result":{"created":true}})"
          "\n"
          R"({"result":{"events":[{"type":"MOVE","kv":{"key":"YQ==","mod_revision":"3"}}]}})"
          "\n";
  const auto watch = client->watch("a", 0, soon());
  ASSERT_TRUE(watch.ok());
  EXPECT_EQ((*watch)->next(soon()).status().code(), Code::kBadData);
}

TEST(StoreClient, AnEndlessLineIsCutOff) {
  FakeServer server([](int, const std::string& request) -> std::string {
    if (!asks(request, "/v3/watch")) return http_answer(200, kFine);
    std::string endless = test::stream_head();
    for (int i = 0; i < 40; ++i) endless += test::chunk(std::string(1u << 20, 'x'));
    return endless;
  });
  const auto client = connect({server.url()});
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->watch("a", 0, soon()).status().code(), Code::kBadData);
}

TEST(StoreClient, AnExpiredLoginIsRenewedOnce) {
  std::atomic<int> logins{0};
  FakeServer server([&](int, const std::string& request) -> std::string {
    if (asks(request, "/v3/auth/authenticate")) {
      return http_answer(200, R"({"token":"t)" + std::to_string(++logins) + "\"}");
    }
    if (request.find("Authorization: t2\r\n") != std::string::npos) return http_answer(200, kFine);
    return http_answer(401, R"({"error":"etcdserver: invalid auth token","code":16})");
  });
  StoreOptions options;
  options.endpoints = {server.url()};
  options.user = "u";
  options.password = "p";
  const auto client = StoreClient::connect(options, soon());
  ASSERT_TRUE(client.ok()) << client.status().to_string();
  EXPECT_EQ(logins.load(), 2);
  EXPECT_TRUE((*client)->put("a", "b", 0, soon()).ok());
  EXPECT_EQ(logins.load(), 2);
}

// The job token goes only to a store that asks for one.
TEST(StoreClient, TheTokenIsNotShownUnasked) {
  std::atomic<int> shown{0};
  FakeServer server([&](int, const std::string& request) {
    if (request.find("Authorization") != std::string::npos) ++shown;
    return http_answer(200, kFine);
  });
  StoreOptions options;
  options.endpoints = {server.url()};
  options.token = "secret";
  const auto client = StoreClient::connect(options, soon());
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE((*client)->put("a", "b", 0, soon()).ok());
  EXPECT_EQ(shown.load(), 0);
}

// A certificate for 127.0.0.1 signed by itself, and an etcd that serves with it.
TEST(StoreClient, HttpsVerifiesTheCertificateAndTheHost) {
  if (!test::EtcdProcess::installed()) GTEST_SKIP() << "etcd is not installed (/usr/bin/etcd)";
  const auto etcd = test::EtcdProcess::start_tls();
  ASSERT_NE(etcd, nullptr) << "needs the openssl command";
  StoreOptions options;
  options.endpoints = {etcd->url()};
  EXPECT_EQ(StoreClient::connect(options, soon()).status().code(), Code::kUnauthenticated)
      << "the system does not trust it";
  options.ca_file = etcd->ca_file();
  const auto client = StoreClient::connect(options, soon());
  ASSERT_TRUE(client.ok()) << client.status().to_string();
  EXPECT_TRUE((*client)->put("a", "b", 0, soon()).ok());
  const auto watch = (*client)->watch("a", 2, soon());
  ASSERT_TRUE(watch.ok()) << watch.status().to_string();
  EXPECT_EQ((*watch)->next(soon())->front().item.value, "b");
  const std::string url = etcd->url();
  options.endpoints = {"https://localhost" + url.substr(url.rfind(':'))};
  EXPECT_EQ(StoreClient::connect(options, soon()).status().code(), Code::kUnauthenticated)
      << "the certificate is for 127.0.0.1 only";
  options.endpoints = {"http" + url.substr(5)};
  options.ca_file.clear();
  EXPECT_FALSE(StoreClient::connect(options, soon()).ok());
}

}  // namespace
}  // namespace wb
