#include "control/resolve.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <charconv>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/thread.h"

namespace wb {
namespace {

using Addresses = std::vector<ResolvedAddress>;

Result<uint16_t> parse_port(const std::string& text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Status(Code::kInvalidArgument, "not a port: \"" + text + "\"");
  }
  return port;
}

std::optional<std::string> numeric_ip(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  const void* from = nullptr;
  if (address->sa_family == AF_INET) {
    from = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address->sa_family == AF_INET6) {
    from = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  }
  if (from == nullptr || inet_ntop(address->sa_family, from, text, sizeof text) == nullptr) {
    return std::nullopt;
  }
  return text;
}

Result<Addresses> look_up(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int failure = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (failure != 0) {
    return Status(failure == EAI_AGAIN ? Code::kUnavailable : Code::kNotFound,
                  "host \"" + host + "\": " + gai_strerror(failure))
        .with_peer(host)
        .with_vendor(failure);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  Addresses addresses;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    if (auto ip = numeric_ip(at->ai_addr)) addresses.push_back({std::move(*ip), port});
  }
  if (addresses.empty()) {
    return Status(Code::kNotFound, "host \"" + host + "\" has no address").with_peer(host);
  }
  return addresses;
}

struct Pending {
  std::mutex mutex;
  std::condition_variable ready;
  std::optional<Result<Addresses>> answer;
};

}  // namespace

Result<std::vector<ResolvedAddress>> resolve(const std::string& host, const std::string& port_text,
                                             Deadline deadline) {
  WB_ASSIGN_OR_RETURN(const uint16_t port, parse_port(port_text));
  if (auto numeric = look_up(host, port, AI_NUMERICHOST); numeric.ok()) return numeric;

  // getaddrinfo cannot be interrupted. It runs in a thread that owns all it touches, so that a
  // caller whose deadline passes can leave it behind; it ends with the name service's own timeout.
  const auto pending = std::make_shared<Pending>();
  WB_ASSIGN_OR_RETURN(std::thread thread, start_thread("look up " + host, [pending, host, port] {
                        auto answer = look_up(host, port, AI_ADDRCONFIG);
                        const std::lock_guard lock(pending->mutex);
                        pending->answer.emplace(std::move(answer));
                        pending->ready.notify_all();
                      }));
  thread.detach();
  std::unique_lock lock(pending->mutex);
  if (!pending->ready.wait_until(lock, deadline.when(),
                                 [&] { return pending->answer.has_value(); })) {
    return Status(Code::kDeadline, "host \"" + host + "\": the name service did not answer")
        .with_peer(host);
  }
  return *pending->answer;
}

}  // namespace wb
