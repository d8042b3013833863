// A TCP server that says what a test tells it to, whatever it is asked: for answers that no honest
// server gives.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace wb::test {

class FakeServer {
 public:
  // Called with each whole request (head and body) of connection `connection`; returns the bytes to
  // send. An empty answer closes the connection; kSilence sends nothing and keeps it open.
  using Script = std::function<std::string(int connection, const std::string& request)>;
  static const std::string kSilence;

  explicit FakeServer(Script script);
  ~FakeServer();
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string url() const { return "http://" + address(); }

 private:
  void accept_loop();
  void serve(int fd, int connection);

  const Script script_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::vector<std::thread> threads_;
  std::vector<int> sockets_;
};

// An answer that a test changes while the server's threads read it.
class SharedText {
 public:
  explicit SharedText(std::string text = "") : text_(std::move(text)) {}
  SharedText& operator=(std::string text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
    return *this;
  }
  std::string get() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

// "HTTP/1.1 STATUS ...", with the length of `body`.
std::string http_answer(int status, const std::string& body);
// The head of an answer without end, and one chunk of it.
std::string stream_head();
std::string chunk(const std::string& body);

}  // namespace wb::test
