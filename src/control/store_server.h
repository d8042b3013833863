// The embedded store: an in-memory server of the subset of the etcd v3 HTTP/JSON API that
// StoreClient uses (put, range, deleterange, txn, lease grant/keepalive/revoke, watch), with etcd's
// traps intact: 64-bit numbers as strings, false and zero fields absent. Holds hundreds of watches
// on one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"

namespace wb {

struct StoreServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;  // 0: the kernel chooses
  std::string token;  // bearer token asked of every request; empty: anyone
};

class StoreServer {
 public:
  // kBusy when the port is taken. Runs its own thread until close() or destruction.
  static Result<std::unique_ptr<StoreServer>> listen(const StoreServerOptions& options);
  // HOST:PORT, IPv6 in brackets. kInvalidArgument when it is not.
  static Result<std::unique_ptr<StoreServer>> listen(std::string_view host_port, std::string token);
  virtual ~StoreServer() = default;
  virtual std::string endpoint() const = 0;  // "http://127.0.0.1:41001"
  virtual Status close(Deadline deadline) = 0;
};

}  // namespace wb
