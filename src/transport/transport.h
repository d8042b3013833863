// The contract of every transport: register memory, export its key, connect to a peer, execute a
// read list, report exactly what completed.
//
// Threads: a Domain's registration and connect calls may come from any thread. A Connection and its
// jobs belong to one thread at a time. Nothing here logs, allocates, locks or makes a system call
// per read once a job is prepared (process_vm_readv: one call per 1024 ranges).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "memory/allocation.h"
#include "plan/read_list.h"

namespace wb {

enum class TransportKind : uint8_t { kLocal = 1, kUcx = 2, kVerbs = 3, kFake = 4 };
std::string_view transport_name(TransportKind kind);

// An authenticated request to the peer, carried by control's peer endpoint and injected by session:
// how connection blobs, nonces and queue-pair numbers travel. The peer answers in
// Domain::handle_exchange.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual Result<std::string> call(std::string_view payload, Deadline deadline) = 0;
};

// May this transport read from that peer, and why (not). Goes into the start-up report.
struct Reach {
  bool reachable = false;
  std::string reason;
  bool ended = false;  // the peer's process is known to have ended: nothing will reach it
};

// Memory of this process that a transport knows. Stays valid until deregistered.
using RegionId = uint32_t;

enum class Access : uint8_t {
  kRemoteRead = 1,   // peers may READ it; nobody may write it from outside
  kLocalTarget = 2,  // reads land in it; no remote right at all
};

// Memory of a peer that a connection can read; valid as long as the connection.
using RemoteRegion = uint32_t;

enum class JobState : uint8_t {
  kIdle,    // prepared, or ended and ready to be posted again
  kActive,  // posted; local memory may be written at any time
  kDone,    // every read reached its end with success
  kFailed,  // every read reached its end, at least one without success: see status()
};

// A read list bound to one connection, regions included: built once, posted many times.
class ReadJob {
 public:
  virtual ~ReadJob() = default;
  virtual JobState state() const = 0;
  virtual Status status() const = 0;        // why kFailed
  virtual uint64_t bytes_done() const = 0;  // of the current or last post
};

class Connection {
 public:
  virtual ~Connection() = default;

  // `key` is what the peer's Domain::export_key gave.
  virtual Result<RemoteRegion> import_region(std::string_view key, Deadline deadline) = 0;

  // Binds list.runs[i].remote_region r to remote[r] and local_region l to local[l]. Checks every
  // run against the sizes of the regions (kInvalidArgument otherwise).
  virtual Result<std::unique_ptr<ReadJob>> prepare(const ReadList& list,
                                                   std::span<const RemoteRegion> remote,
                                                   std::span<const RegionId> local) = 0;
  // Does ahead of the first post what would slow it down: page tables of what the job reads. The
  // job works without it. kDeadline when the time was too short; what was done stays done.
  virtual Status warm(ReadJob&, Deadline) { return Status(); }

  // Starts the job; never blocks. kFailedPrecondition when it is active.
  virtual Status post(ReadJob& job) = 0;
  // Advances the job by a bounded amount of work (some milliseconds at most) and returns its state.
  virtual JobState poll(ReadJob& job) = 0;
  // Brings an active job to a terminal state without waiting for its data: when it returns ok no
  // read of it can touch local memory any more. The connection may be unusable afterwards. Of a job
  // that has failed it tells the same; where that stays an error, the memory must not be used
  // again.
  virtual Status abort(ReadJob& job, Deadline deadline) = 0;

  // Reads `words.size()` 64-bit words at byte `offset` (8-byte aligned). Ordered: it observes
  // memory after all reads that completed before the call, and completes before any read posted
  // after it returns. Each word is read whole.
  virtual Status read_words(RemoteRegion region, uint64_t offset, std::span<uint64_t> words,
                            Deadline deadline) = 0;

  // Ok while the peer is alive as far as this transport can tell without asking it.
  virtual Status alive() = 0;
  // How bytes move, for the report: "mapped memfd", "process_vm_readv", "ucx tcp (source helps)".
  virtual std::string mechanism() const = 0;
};

// One transport in one process.
class Domain {
 public:
  virtual ~Domain() = default;
  virtual TransportKind kind() const = 0;

  // Holds the allocation alive until deregistered.
  virtual Result<RegionId> register_region(std::shared_ptr<Allocation> memory, Access access) = 0;
  virtual Status deregister_region(RegionId region) = 0;
  // Opaque bytes that let an authenticated peer read the region. Only for kRemoteRead.
  virtual Result<std::string> export_key(RegionId region) = 0;

  // Opaque bytes that say where and what this domain is; goes into the manifest.
  virtual std::string address() const = 0;
  virtual Reach reach(std::string_view peer_address) const = 0;
  virtual Result<std::unique_ptr<Connection>> connect(std::string_view peer_address,
                                                      std::unique_ptr<Exchange> exchange,
                                                      Deadline deadline) = 0;

  // The source's side of Exchange::call; called from the peer endpoint's thread.
  virtual Result<std::string> handle_exchange(std::string_view payload) = 0;

  // True when readers make progress only while the source calls progress() (UCX over TCP). The
  // session then runs a helper thread and says so in the report.
  virtual bool needs_source_progress() const = 0;
  virtual void progress() = 0;
};

}  // namespace wb
