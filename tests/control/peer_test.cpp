#include "control/peer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "backends.h"
#include "fake_server.h"

namespace wb {
namespace {

using test::FakeServer;
using test::milliseconds;
using test::soon;

const std::string kToken = "a-job-token";

PeerServerOptions options() {
  PeerServerOptions options;
  options.token = kToken;
  options.max_payload = 1u << 20;
  options.topics["echo"] = [](std::string_view payload) { return std::string(payload); };
  options.topics["exchange/fail"] = [](std::string_view) -> Result<std::string> {
    return Status(Code::kNotCovered, "no source holds \"\xff\"")
        .with_peer("trainer-7")
        .with_tensor("lm_head.weight")
        .with_errno(12)
        .with_vendor(-3);
  };
  return options;
}

TEST(Peer, BytesTravelBothWays) {
  const auto server = PeerServer::listen(options());
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  std::string every;
  for (int c = 0; c < 256; ++c) every.push_back(static_cast<char>(c));
  for (const std::string& payload : {std::string(), every, std::string(1u << 20, '\xff')}) {
    const auto answer = peer_call((*server)->address(), kToken, "echo", payload, soon());
    ASSERT_TRUE(answer.ok()) << answer.status().to_string();
    EXPECT_EQ(*answer, payload);
  }
  EXPECT_TRUE((*server)->close(soon()).ok());
  EXPECT_EQ(peer_call((*server)->address(), kToken, "echo", "", soon()).status().code(),
            Code::kUnavailable);
}

TEST(Peer, AHandlersErrorArrivesWithItsFacts) {
  const auto server = PeerServer::listen(options());
  ASSERT_TRUE(server.ok());
  const Status status =
      peer_call((*server)->address(), kToken, "exchange/fail", "", soon()).status();
  EXPECT_EQ(status.code(), Code::kNotCovered);
  EXPECT_NE(status.message().find("no source holds"), std::string::npos);
  EXPECT_EQ(status.facts().peer, "trainer-7");
  EXPECT_EQ(status.facts().tensor, "lm_head.weight");
  EXPECT_EQ(status.facts().sys_errno, 12);
  EXPECT_EQ(status.facts().vendor, -3);
}

TEST(Peer, RefusesWhatItShould) {
  const auto server = PeerServer::listen(options());
  ASSERT_TRUE(server.ok());
  const std::string address = (*server)->address();
  for (const char* wrong : {"a-job-toke", "a-job-tokenx", "A-job-token", "x"}) {
    EXPECT_EQ(peer_call(address, wrong, "echo", "", soon()).status().code(),
              Code::kUnauthenticated);
  }
  EXPECT_EQ(peer_call(address, "x", "echo", std::string(900'000, 'p'), soon()).status().code(),
            Code::kUnauthenticated)
      << "refused before the body, and the reason still arrives";
  EXPECT_EQ(peer_call(address, kToken, "none", "", soon()).status().code(), Code::kNotFound);
  EXPECT_EQ(
      peer_call(address, kToken, "echo", std::string((1u << 20) + 1, 'x'), soon()).status().code(),
      Code::kInvalidArgument);
  EXPECT_EQ(peer_call(address, "", "echo", "", soon()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(peer_call(address, "a\r\nb", "echo", "", soon()).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(peer_call(address, kToken, "../x", "", soon()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(peer_call("nonsense", kToken, "echo", "", soon()).status().code(),
            Code::kInvalidArgument);
  EXPECT_TRUE(peer_call(address, kToken, "echo", "", soon()).ok());
}

TEST(Peer, ListenRefusesWhatItShould) {
  auto none = options();
  none.token.clear();
  EXPECT_EQ(PeerServer::listen(none).status().code(), Code::kInvalidArgument);
  auto any = options();
  any.host = "0.0.0.0";
  EXPECT_EQ(PeerServer::listen(any).status().code(), Code::kInvalidArgument);
  const auto first = PeerServer::listen(options());
  ASSERT_TRUE(first.ok());
  auto second = options();
  const std::string address = (*first)->address();
  second.port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  EXPECT_EQ(PeerServer::listen(second).status().code(), Code::kBusy);
}

TEST(Peer, AStuckHandlerOrClientHoldsNobodyElsesConnection) {
  std::mutex mutex;
  std::condition_variable changed;
  bool entered = false;
  bool release = false;
  auto with_slow = options();
  with_slow.topics["slow"] = [&](std::string_view) -> Result<std::string> {
    std::unique_lock lock(mutex);
    entered = true;
    changed.notify_all();
    changed.wait(lock, [&] { return release; });
    return std::string("done");
  };
  auto server = PeerServer::listen(with_slow);
  ASSERT_TRUE(server.ok());
  const std::string address = (*server)->address();
  Status slow_status;
  std::thread slow([&] { slow_status = peer_call(address, kToken, "slow", "", soon()).status(); });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return entered; });
  }
  // The handler is held; the server's own answers still come, and a call ends by its deadline.
  EXPECT_EQ(peer_call(address, "wrong", "echo", "", soon()).status().code(),
            Code::kUnauthenticated);
  EXPECT_EQ(
      peer_call(address, kToken, "echo", "", Deadline::after(milliseconds(50))).status().code(),
      Code::kDeadline);
  EXPECT_EQ((*server)->close(Deadline::after(milliseconds(20))).code(), Code::kDeadline);
  {
    const std::lock_guard lock(mutex);
    release = true;
    changed.notify_all();
  }
  EXPECT_TRUE((*server)->close(soon()).ok());
  slow.join();
  EXPECT_EQ(slow_status.code(), Code::kUnavailable) << "its connection was closed";
}

TEST(Peer, ManyCallersAtOnce) {
  const auto server = PeerServer::listen(options());
  ASSERT_TRUE(server.ok());
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string payload = std::to_string(t) + "/" + std::to_string(i);
        const auto answer = peer_call((*server)->address(), kToken, "echo", payload, soon());
        if (answer.ok() && *answer == payload) ++good;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 80);
}

TEST(Peer, AnswersOfAHostilePeerAreRefused) {
  test::SharedText answer;
  FakeServer server([&](int, const std::string&) { return answer.get(); });
  const auto call = [&] {
    return peer_call(server.address(), kToken, "echo", "", Deadline::after(milliseconds(2000)))
        .status()
        .code();
  };
  const std::vector<std::pair<std::string, Code>> cases = {
      {"garbage\r\n\r\n", Code::kBadData},
      {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", Code::kBadData},
      {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", Code::kDeadline},
      {"HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n", Code::kBadData},
      {test::http_answer(500, "not json"), Code::kBadData},
      {test::http_answer(500, R"({"code":0,"message":"ok?"})"), Code::kBadData},
      {test::http_answer(500, R"({"code":9999,"message":"?"})"), Code::kBadData},
      {test::http_answer(500, R"({"code":5,"errno":-1})"), Code::kBadData},
      {test::http_answer(500, R"({"code":5,"message":"gone"})"), Code::kUnavailable},
      {test::http_answer(302, ""), Code::kBadData},
      {FakeServer::kSilence, Code::kDeadline},
      {"", Code::kUnavailable}};
  for (const auto& [text, code] : cases) {
    answer = text;
    EXPECT_EQ(code_name(call()), code_name(code)) << text.substr(0, 60);
  }
}

TEST(Token, EqualOnlyToItself) {
  EXPECT_TRUE(token_equal("abc", "abc"));
  EXPECT_TRUE(token_equal("", ""));
  for (const char* other : {"", "ab", "abcd", "abd", "bbc", "abcabc"}) {
    EXPECT_FALSE(token_equal("abc", other)) << other;
    EXPECT_FALSE(token_equal(other, "abc")) << other;
  }
}

class TokenFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "wb-token-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string file(const std::string& text, mode_t mode = 0600) {
    const std::string path = directory_ + "/token";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  std::string directory_;
};

TEST_F(TokenFile, IsItsFirstLineWithoutTrailingSpace) {
  for (const char* text : {"secret", "secret\n", "secret \t\r\nsecond line\n"}) {
    const auto token = read_token_file(file(text));
    ASSERT_TRUE(token.ok()) << token.status().to_string();
    EXPECT_EQ(*token, "secret");
  }
}

TEST_F(TokenFile, RefusesWhatOthersMayReadAndWhatIsNoToken) {
  EXPECT_EQ(read_token_file(file("secret", 0644)).status().code(), Code::kPermission);
  EXPECT_EQ(read_token_file(file("secret", 0640)).status().code(), Code::kPermission);
  EXPECT_EQ(read_token_file(directory_ + "/none").status().code(), Code::kNotFound);
  EXPECT_EQ(read_token_file(directory_).status().code(), Code::kInvalidArgument);
  for (const std::string& text : {std::string(), std::string("\nsecret"), std::string("two words"),
                                  std::string("nul\0l", 5), std::string(8000, 'x')}) {
    EXPECT_EQ(read_token_file(file(text)).status().code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace wb
