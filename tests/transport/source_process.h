// A source process under a test's control.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"
#include "memory/allocation.h"
#include "source_protocol.h"
#include "transport/transport.h"

namespace wb::test {

class SourceProcess {
 public:
  struct Region {
    RegionId id = 0;
    std::string key;
  };

  // Aborts the test program when the process cannot be started. `tls`: UCX_TLS, or verbs options.
  static std::shared_ptr<SourceProcess> start(TransportKind kind, const std::string& tls = "");
  ~SourceProcess();

  Result<std::string> call(Op op, std::string_view payload, Deadline deadline);
  Result<std::string> call(Op op, std::string_view payload = "");
  std::string address();
  Region region(MemoryKind kind, uint64_t bytes, uint64_t seed);
  void store(RegionId region, uint64_t offset, uint64_t word);

  pid_t pid() const { return pid_; }
  void signal(int number);
  // SIGKILL, and waits until it is gone.
  void kill();

  // Calls the source's handle_exchange.
  static std::unique_ptr<Exchange> exchange(std::shared_ptr<SourceProcess> source);

 private:
  SourceProcess(pid_t pid, int socket) : pid_(pid), socket_(socket) {}
  std::mutex mutex_;
  pid_t pid_;
  int socket_;
  bool ended_ = false;
  uint64_t unanswered_ = 0;  // calls given up at their deadline: their answers are skipped
};

// Far enough for a loaded machine; a test that reaches it has failed.
inline Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

}  // namespace wb::test
