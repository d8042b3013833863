// A real READ between two machines, with every byte checked: one doctor serves, another reads. Only
// the transports' contract is used, so every transport of this build is tried.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "cli/doctor/check.h"
#include "transport/transport.h"
#include "transport/verbs/options.h"

namespace wb::cli::doctor {

struct ServeOptions {
  std::string host = "127.0.0.1";  // to listen on
  uint16_t port = 0;
  std::string token;
  uint64_t bytes = 64u << 20;  // rounded up to whole MiB
  VerbsOptions verbs;
};

class PeerService {
 public:
  // Offers the test memory through every transport that this machine can run.
  static Result<std::unique_ptr<PeerService>> start(const ServeOptions& options);
  virtual ~PeerService() = default;
  virtual std::string address() const = 0;
  virtual const Findings& findings() const = 0;  // one line per transport
  virtual Status close(Deadline deadline) = 0;
};

struct PeerOptions {
  std::string peer;  // "10.0.0.2:7072"
  std::string token;
  std::optional<TransportKind> transport;  // this one must work; else one of all
  VerbsOptions verbs;
  Deadline deadline = Deadline::after(std::chrono::seconds(60));
};

struct PeerResult {
  Findings findings;         // one line per transport
  bool wrong_bytes = false;  // a READ that reported success brought other bytes
  Status status;             // ok when a transport (the one asked for) read all bytes right
};
// Fails when the peer cannot be asked at all.
Result<PeerResult> try_peer(const PeerOptions& options);

}  // namespace wb::cli::doctor
