// Makes transports by kind, and picks one of them for a peer in the open.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "observe/log.h"
#include "transport/transport.h"
#include "transport/verbs/options.h"

namespace wb {

struct LocalOptions {
  // One poll() copies about this much, so that deadlines and several sources interleave.
  uint64_t poll_bytes = 4u << 20;
  // Where Yama's ptrace_scope is 1, a process may name one reader, or all processes of its user.
  // False: only the newest authenticated reader is let in. True: all, once a second one asks.
  bool yama_any_reader = true;
};

struct UcxOptions {
  std::string library = "libucp.so.0";  // opened at run time
  std::string tls;                      // UCX_TLS; empty: the environment's or UCX's own choice
  // UCX_NET_DEVICES, likewise; on a loopback host with neither, "lo".
  std::string net_devices;
  uint32_t window = 64;  // reads in flight per connection
};

struct DomainOptions {
  // Address of this machine that peers can reach. UCX over TCP serves whoever reaches its ports:
  // with a loopback address it opens none on another device.
  std::string host;
  LocalOptions local;
  UcxOptions ucx;
  VerbsOptions verbs;
  Log log;
};

// "localhost" or an address of the loopback device: peers elsewhere cannot reach it.
bool loopback_host(const std::string& host);

// kUnsupported, with what is missing, when this build or machine cannot run the transport.
Result<std::unique_ptr<Domain>> make_domain(TransportKind kind, const DomainOptions& options);

// One transport's answer for one peer.
struct Candidate {
  TransportKind kind = TransportKind::kLocal;
  Reach reach;
};

struct Choice {
  std::optional<TransportKind> kind;  // nothing: the peer cannot be reached at all
  std::string reason;                 // what every candidate said, in order
};

// The first candidate that reaches the peer. Pure: candidates are in the order of preference.
Choice choose_transport(std::span<const Candidate> candidates);

}  // namespace wb
