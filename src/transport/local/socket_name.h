// The address of an abstract Unix socket: lives in the network namespace, leaves no file behind.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace wb::local {

class SocketName {
 public:
  // The name is cut at what the address can hold; ours are 45 bytes, a peer's are checked before.
  explicit SocketName(const std::string& name) {
    address_.sun_family = AF_UNIX;
    const size_t length = std::min(name.size(), sizeof address_.sun_path - 1);
    std::memcpy(address_.sun_path + 1, name.data(), length);
    size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return size_; }

 private:
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

}  // namespace wb::local
