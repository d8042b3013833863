#include "transport/local/fd_server.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/thread.h"
#include "transport/local/socket_name.h"

namespace wb::local {
namespace {

// Another process can bind a name like this first, but not serve it: clients check who listens.
Result<UniqueFd> listen_on(const std::string& name) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno_status(errno, "creating a Unix socket");
  const SocketName address(name);
  if (bind(fd.get(), address.get(), address.size()) != 0) {
    return errno_status(errno, "binding a Unix socket");
  }
  if (listen(fd.get(), kMaxClients) != 0) return errno_status(errno, "listening");
  return fd;
}

// Two descriptors and one byte of data: a message without data would read like end of file.
bool send_fds(int socket, int region, int companion) {
  const std::array<int, 2> fds = {region, companion};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> control{};
  char data = 1;
  iovec io{&data, 1};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

}  // namespace

FdServer::FdServer(std::shared_ptr<Allocation> companion, std::string name, UniqueFd listener,
                   UniqueFd wake)
    : companion_(std::move(companion)),
      name_(std::move(name)),
      listener_(std::move(listener)),
      wake_(std::move(wake)) {}

Result<std::unique_ptr<FdServer>> FdServer::start(std::shared_ptr<Allocation> companion) {
  const std::string name = "weightbridge-" + random_id().hex();
  WB_ASSIGN_OR_RETURN(UniqueFd listener, listen_on(name));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return errno_status(errno, "creating an eventfd");
  std::unique_ptr<FdServer> server(
      new FdServer(std::move(companion), name, std::move(listener), std::move(wake)));
  WB_ASSIGN_OR_RETURN(server->thread_,
                      start_thread("hand out descriptors", [raw = server.get()] { raw->serve(); }));
  return server;
}

FdServer::~FdServer() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  // Cannot fail: the counter is far from its maximum.
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

Result<MapGrant> FdServer::grant(std::shared_ptr<Allocation> region, uint32_t reader_pid) {
  const auto now = Clock::now();
  const Digest nonce = random_id();
  const std::lock_guard lock(mutex_);
  std::erase_if(grants_, [now](const auto& item) { return item.second.expires <= now; });
  if (grants_.size() >= kMaxNonces) {
    return Status(Code::kBusy, std::to_string(kMaxNonces) +
                                   " readers have asked for memory and not fetched it yet");
  }
  grants_.emplace(nonce, Grant{std::move(region), reader_pid, now + kNonceLife});
  return MapGrant{nonce, name_};
}

bool FdServer::expected(uint32_t pid) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  return std::any_of(grants_.begin(), grants_.end(), [&](const auto& item) {
    return item.second.reader_pid == pid && item.second.expires > now;
  });
}

std::shared_ptr<Allocation> FdServer::redeem(const Digest& nonce, uint32_t pid) {
  const std::lock_guard lock(mutex_);
  const auto found = grants_.find(nonce);
  if (found == grants_.end() || found->second.reader_pid != pid) return nullptr;
  const Grant grant = std::move(found->second);
  grants_.erase(found);  // one use, also when it has expired
  return grant.expires > Clock::now() ? grant.region : nullptr;
}

void FdServer::accept_clients() {
  while (clients_.size() < kMaxClients) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return;
      // Out of descriptors or memory: the listener stays readable, so look away for a moment.
      accept_again_ = Clock::now() + std::chrono::milliseconds(50);
      return;
    }
    ucred who{};
    socklen_t size = sizeof who;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.pid <= 0 ||
        !expected(static_cast<uint32_t>(who.pid))) {
      refuse();
      continue;
    }
    clients_.push_back(
        {std::move(fd), static_cast<uint32_t>(who.pid), Clock::now() + kClientPatience});
  }
}

bool FdServer::answer(Client& client) {
  // One byte more than a nonce has, so that a longer message is seen as such.
  std::array<char, kNonceBytes + 1> bytes{};
  const ssize_t got = recv(client.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  std::shared_ptr<Allocation> region;
  if (got == static_cast<ssize_t>(kNonceBytes)) {
    Digest nonce;
    std::memcpy(&nonce.low, bytes.data(), sizeof nonce.low);
    std::memcpy(&nonce.high, bytes.data() + sizeof nonce.low, sizeof nonce.high);
    region = redeem(nonce, client.pid);
  }
  // A reader that vanished before the answer was sent sees nothing and loses nothing.
  if (region == nullptr || !send_fds(client.fd.get(), region->fd(), companion_->fd())) refuse();
  return true;
}

void FdServer::close_late_clients() {
  const auto now = Clock::now();
  const size_t late = std::erase_if(clients_, [now](const Client& c) { return c.expires <= now; });
  for (size_t i = 0; i < late; ++i) refuse();
}

// `accepting` as the caller saw it: a clock that is asked twice could leave the listener out for
// good.
int FdServer::next_timeout_ms(bool accepting) const {
  auto next = Clock::time_point::max();
  for (const Client& client : clients_) next = std::min(next, client.expires);
  if (!accepting && clients_.size() < kMaxClients) next = std::min(next, accept_again_);
  return next == Clock::time_point::max() ? -1 : Deadline::at(next).remaining_ms();
}

void FdServer::serve() {
  pthread_setname_np(pthread_self(), "wb-descriptors");
  std::vector<pollfd> polled;
  polled.reserve(kMaxClients + 2);
  while (!stop_.load(std::memory_order_acquire)) {
    const bool accepting = clients_.size() < kMaxClients && accept_again_ <= Clock::now();
    polled.clear();
    polled.push_back({wake_.get(), POLLIN, 0});
    polled.push_back({accepting ? listener_.get() : -1, POLLIN, 0});
    for (const Client& client : clients_) polled.push_back({client.fd.get(), POLLIN, 0});
    // Interrupted or out of kernel memory: the loop looks again.
    if (poll(polled.data(), polled.size(), next_timeout_ms(accepting)) < 0) continue;

    for (size_t i = clients_.size(); i-- > 0;) {
      if (polled[i + 2].revents != 0 && answer(clients_[i])) {
        clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    close_late_clients();
    if (polled[1].revents != 0) accept_clients();
  }
}

}  // namespace wb::local
