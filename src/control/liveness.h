// TCP options that end a quiet connection whose other side vanished without a word (power, cable,
// frozen host) after about 25 s instead of hours.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace wb {

// Best effort: without one of the options the loss is only noticed later.
inline void set_liveness(int fd) {
  const auto set = [fd](int level, int name, int value) {
    (void)::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 25'000);
}

}  // namespace wb
