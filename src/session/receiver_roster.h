// The receivers of a job, so that each of them can plan for all: then no source is read by many of
// them where it could be read by few. What a receiver does not learn here costs balance, never
// bytes: each reads all that it needs from the sources in any case.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/hash.h"
#include "base/status.h"
#include "control/manifest.h"
#include "control/membership.h"
#include "control/peer.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "observe/log.h"
#include "session/bound_memory.h"
#include "session/job_internal.h"

namespace wb {

// Another receiver, as it says of itself. Its manifest has no transports: nobody reads from it.
struct FellowReceiver {
  std::string name;
  Digest digest;  // of the manifest's bytes
  std::shared_ptr<const Manifest> manifest;
};

class ReceiverRoster {
 public:
  // Serves this receiver's layout at a peer endpoint of its own and keeps its record in the store.
  static Result<std::unique_ptr<ReceiverRoster>> enlist(
      const JobInternal& job, const TensorTable& table, const WorkerLayout& layout,
      const BoundMemory& memory, const std::string& name, uint32_t index, Deadline deadline);
  ~ReceiverRoster();

  // Whether the others may be not what they were at the last look_up(): `serial`, of the watch, is
  // another, or who did not answer (one of them, the store) is to be asked again.
  bool stale(uint64_t serial) const;
  // The others that are there now, by name; no name twice, and not this one's own. Layouts are
  // fetched once per digest. Never longer than a few seconds: who does not answer is left out, and
  // the log says so; it is not asked again for a while.
  void look_up(uint64_t serial, const TensorTable& table, Deadline deadline);
  // As found by the last look_up().
  const std::vector<FellowReceiver>& fellows() const { return fellows_; }

  Status close(Deadline deadline);

 private:
  ReceiverRoster(const JobInternal& job, std::string name);
  Result<std::shared_ptr<const Manifest>> manifest_of(const WorkerRecord& record,
                                                      const TensorTable& table, Deadline deadline);

  const std::shared_ptr<StoreClient> store_;
  const std::string job_;
  const std::string token_;
  const Log log_;
  const std::string name_;
  const Digest incarnation_ = random_id();
  std::string manifest_;
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<Registration> registration_;

  std::optional<uint64_t> serial_;  // of the last look_up
  std::vector<FellowReceiver> fellows_;
  std::map<Digest, std::shared_ptr<const Manifest>> cache_;
  // Who did not answer, by incarnation (zero: the store), and until when it is not asked again.
  std::map<Digest, Deadline> silent_;
};

}  // namespace wb
