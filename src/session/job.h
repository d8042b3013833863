// A job: one process's membership in one training run. Holds what its publishers and receivers
// share: the store client, the token, the transports, the log.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "control/peer.h"
#include "control/store_client.h"
#include "control/store_server.h"
#include "layout/worker_layout.h"
#include "memory/allocation.h"
#include "observe/log.h"
#include "transport/transport.h"

namespace wb {

struct JobOptions {
  std::string name = "default";  // two jobs with other names do not see each other in one store
  // "embed:HOST:PORT" (this process serves the store) or "http(s)://HOST:PORT[,...]".
  std::string store;
  std::string token;               // required; see read_token_file()
  std::string host = "127.0.0.1";  // address of this machine that peers can reach
  std::vector<TransportKind>
      transports;  // allowed, best first; empty: local, and ucx unless host is a loopback address
  std::string verbs;  // for the verbs transport: KEY=VALUE,... (transport/verbs/options.h)
  std::string etcd_user;
  std::string etcd_password;
  std::string ca_file;
  Log log;
};

class Job {
 public:
  static Result<std::shared_ptr<Job>> open(JobOptions options, Deadline deadline);
  virtual ~Job() = default;
  virtual const JobOptions& options() const = 0;
  virtual const std::shared_ptr<StoreClient>& store() const = 0;
  // The URL under which other processes reach the store (for embed: the embedded server's).
  virtual std::string store_url() const = 0;
  virtual Status close(Deadline deadline) = 0;
};

// Where a buffer of a layout lies in memory of this process.
struct BoundBuffer {
  std::shared_ptr<Allocation> memory;
  uint64_t offset = 0;
};

// One allocation for all buffers of a layout, each buffer aligned to 4096 bytes.
Result<std::vector<BoundBuffer>> bind_new_memory(const WorkerLayout& layout, MemoryKind kind,
                                                 const AllocationOptions& options);

}  // namespace wb
