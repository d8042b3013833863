#include "transport/local/mapping.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "transport/local/fd_server.h"
#include "transport/local/socket_name.h"

namespace wb::local {
namespace {

Status deadline_passed() {
  return Status(Code::kDeadline, "the source did not hand over its memory in time");
}

Status refused() {
  return Status(Code::kUnauthenticated,
                "the source closed the connection without handing over its memory: the nonce had "
                "been used or had expired, or one of the processes is out of descriptors");
}

// The source closes without reading when it expects nobody.
Status socket_status(int error, const char* what) {
  return error == ECONNRESET || error == EPIPE ? refused() : errno_status(error, what);
}

Result<UniqueFd> connect_to(const MapGrant& grant, Deadline deadline) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno_status(errno, "creating a Unix socket");
  const SocketName address(grant.socket_name);
  while (connect(fd.get(), address.get(), address.size()) != 0) {
    if (errno == EINTR) continue;
    // A full queue of a Unix socket cannot be polled for; it empties in microseconds.
    if (errno != EAGAIN) return errno_status(errno, "connecting to the source's Unix socket");
    if (deadline.expired()) return deadline_passed();
    std::this_thread::sleep_for(
        std::min<Deadline::Clock::duration>(std::chrono::milliseconds(1), deadline.remaining()));
  }
  return fd;
}

// Anybody may bind an abstract name; only the peer's process may give us its memory.
Status check_listener(const UniqueFd& fd, uint32_t source_pid) {
  ucred who{};
  socklen_t size = sizeof who;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) {
    return errno_status(errno, "asking who listens on the source's Unix socket");
  }
  if (who.pid > 0 && static_cast<uint32_t>(who.pid) == source_pid) return Status();
  return Status(Code::kUnauthenticated, "process " + std::to_string(who.pid) +
                                            " listens on the Unix socket of process " +
                                            std::to_string(source_pid));
}

Status wait_readable(const UniqueFd& fd, Deadline deadline) {
  while (true) {
    pollfd polled{fd.get(), POLLIN, 0};
    const int ready = poll(&polled, 1, deadline.remaining_ms());
    if (ready > 0) return Status();
    if (ready < 0 && errno != EINTR) return errno_status(errno, "waiting for the source's memory");
    if (deadline.expired()) return deadline_passed();
  }
}

Result<RegionFds> receive_fds(const UniqueFd& socket) {
  std::array<int, 2> fds = {-1, -1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> control{};
  char data = 0;
  iovec io{&data, 1};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return socket_status(errno, "receiving the source's memory");

  // Whatever arrived is owned before it is judged: the control buffer holds at most two.
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  size_t count = 0;
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len >= CMSG_LEN(0)) {
    count = std::min(fds.size(), (header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(fds.data(), CMSG_DATA(header), count * sizeof(int));
  }
  RegionFds received{UniqueFd(fds[0]), UniqueFd(fds[1])};
  if (got == 0 || (message.msg_flags & MSG_CTRUNC) != 0 || count != fds.size()) {
    return refused();
  }
  return received;
}

}  // namespace

Result<std::unique_ptr<Mapping>> Mapping::map(const UniqueFd& fd, uint64_t bytes) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0) return Status(Code::kBadData, "the source handed over something that is no memfd");
  if ((seals & F_SEAL_SHRINK) == 0 || (seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)) == 0) {
    return Status(Code::kBadData,
                  "the source's memfd is not sealed against shrinking and other writers");
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return errno_status(errno, "sizing the source's memory");
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) < bytes || bytes == 0) {
    return Status(Code::kBadData, "the source's memfd is smaller than its key says");
  }
  // The whole file: its size is a multiple of its page size, which for huge pages munmap needs.
  const auto length = static_cast<uint64_t>(info.st_size);
  void* data = mmap(nullptr, length, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return errno_status(errno, "mapping the source's memory");
  madvise(data, length, MADV_HUGEPAGE);  // a hint
  return std::unique_ptr<Mapping>(new Mapping(static_cast<const std::byte*>(data), length));
}

Mapping::~Mapping() { munmap(const_cast<std::byte*>(data_), bytes_); }

Result<RegionFds> fetch_fds(const MapGrant& grant, uint32_t source_pid, Deadline deadline) {
  WB_ASSIGN_OR_RETURN(const UniqueFd socket, connect_to(grant, deadline));
  WB_RETURN_IF_ERROR(check_listener(socket, source_pid));
  std::array<char, kNonceBytes> nonce{};
  std::memcpy(nonce.data(), &grant.nonce.low, sizeof grant.nonce.low);
  std::memcpy(nonce.data() + sizeof grant.nonce.low, &grant.nonce.high, sizeof grant.nonce.high);
  if (send(socket.get(), nonce.data(), nonce.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(nonce.size())) {
    return socket_status(errno, "presenting the nonce to the source");
  }
  WB_RETURN_IF_ERROR(wait_readable(socket, deadline));
  return receive_fds(socket);
}

}  // namespace wb::local
