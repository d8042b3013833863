#include "fake_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>

namespace wb::test {

const std::string FakeServer::kSilence(1, '\0');

FakeServer::FakeServer(Script script) : script_(std::move(script)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(listener_, 64), 0);
  EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  threads_.emplace_back([this] { accept_loop(); });
}

FakeServer::~FakeServer() {
  stopping_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : sockets_) ::shutdown(fd, SHUT_RDWR);
  }
  threads_.front().join();
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : sockets_) ::shutdown(fd, SHUT_RDWR);
    threads = std::move(threads_);
  }
  for (size_t i = 1; i < threads.size(); ++i) threads[i].join();
  for (const int fd : sockets_) ::close(fd);
  ::close(listener_);
}

void FakeServer::accept_loop() {
  while (!stopping_) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const std::lock_guard lock(mutex_);
    sockets_.push_back(fd);
    const int connection = static_cast<int>(sockets_.size()) - 1;
    threads_.emplace_back([this, fd, connection] { serve(fd, connection); });
  }
}

void FakeServer::serve(int fd, int connection) {
  std::string pending;
  for (;;) {
    const size_t head = pending.find("\r\n\r\n");
    const size_t at = pending.find("Content-Length: ");
    const size_t length = at == std::string::npos ? 0 : std::stoul(pending.substr(at + 16));
    if (head != std::string::npos && pending.size() >= head + 4 + length) {
      const std::string answer = script_(connection, pending.substr(0, head + 4 + length));
      pending.erase(0, head + 4 + length);
      if (answer.empty()) break;
      if (answer != kSilence && ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) !=
                                    static_cast<ssize_t>(answer.size())) {
        break;
      }
      continue;
    }
    char bytes[4096];
    const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
    if (got <= 0) break;
    pending.append(bytes, static_cast<size_t>(got));
  }
  ::shutdown(fd, SHUT_RDWR);
}

std::string http_answer(int status, const std::string& body) {
  return "HTTP/1.1 " + std::to_string(status) +
         " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string stream_head() { return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"; }

std::string chunk(const std::string& body) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", body.size());
  return size + body + "\r\n";
}

}  // namespace wb::test
