// Hands the file descriptors of shared regions to readers that present a nonce. The nonce travels
// over the authenticated exchange; the descriptors can only travel over a Unix socket. One thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/hash.h"
#include "base/status.h"
#include "memory/allocation.h"
#include "transport/local/unique_fd.h"
#include "transport/local/wire.h"

namespace wb::local {

// A nonce is good for this long and for one connection.
constexpr auto kNonceLife = std::chrono::seconds(10);
// A connection that has sent nothing is closed after this.
constexpr auto kClientPatience = std::chrono::seconds(2);
constexpr size_t kMaxClients = 64;
constexpr size_t kMaxNonces = 4096;
constexpr size_t kNonceBytes = 16;

class FdServer {
 public:
  // `companion` is sent along with every region: the stamp table.
  static Result<std::unique_ptr<FdServer>> start(std::shared_ptr<Allocation> companion);
  ~FdServer();
  FdServer(const FdServer&) = delete;
  FdServer& operator=(const FdServer&) = delete;

  // Only process `reader_pid` can redeem the nonce. kBusy when too many are outstanding.
  Result<MapGrant> grant(std::shared_ptr<Allocation> region, uint32_t reader_pid);

  // Connections closed without being served: unannounced process, wrong nonce, silence.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  using Clock = Deadline::Clock;
  struct Grant {
    std::shared_ptr<Allocation> region;
    uint32_t reader_pid = 0;
    Clock::time_point expires;
  };
  struct Client {
    UniqueFd fd;
    uint32_t pid = 0;
    Clock::time_point expires;
  };

  FdServer(std::shared_ptr<Allocation> companion, std::string name, UniqueFd listener,
           UniqueFd wake);
  void serve();
  void accept_clients();
  void close_late_clients();
  int next_timeout_ms(bool accepting) const;
  // True when the client is finished, served or refused.
  bool answer(Client& client);
  bool expected(uint32_t pid);
  std::shared_ptr<Allocation> redeem(const Digest& nonce, uint32_t pid);
  void refuse() { refused_.fetch_add(1, std::memory_order_relaxed); }

  const std::shared_ptr<Allocation> companion_;
  const std::string name_;
  const UniqueFd listener_;
  const UniqueFd wake_;
  std::mutex mutex_;  // guards grants_
  std::map<Digest, Grant> grants_;
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<bool> stop_ = false;
  // Of the thread alone.
  std::vector<Client> clients_;
  Clock::time_point accept_again_;  // after the process ran out of descriptors
  std::thread thread_;
};

}  // namespace wb::local
