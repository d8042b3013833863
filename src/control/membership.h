// Who takes part in a job, and the generation of the trainer set.
//
// Keys, under "/weightbridge/JOB/":
//   formation             one record: generation, world, and the incarnation that holds each rank
//   source/RANK/INCARNATION  leased: endpoint, manifest digest, incarnation of a trainer worker
//   receiver/INCARNATION  leased: the same for a receiver
//
// A generation is one set of trainer incarnations. A worker joins by a transaction on the record:
// into the record when its rank is free, otherwise (the rank is held by another incarnation, or the
// record is of another world) it opens generation + 1 with itself as the only member. Receivers
// accept only complete records and only headers of incarnations in the record, so a survivor of an
// older set cannot mix its weights into a new one: it gets kGenerationChanged and may rejoin.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/hash.h"
#include "base/status.h"
#include "control/store_client.h"

namespace wb {

struct Formation {
  uint64_t generation = 0;
  std::vector<Digest> members;  // by rank; a zero digest is a free rank
  int64_t revision = 0;         // mod_revision of the record
  bool complete() const;
  // The number alone does not name a set: a store that lost its records counts from the start
  // again.
  bool same_set(const Formation& other) const {
    return generation == other.generation && members == other.members;
  }
};

struct WorkerRecord {
  std::string worker;
  uint32_t rank = 0;
  Digest incarnation;
  std::string endpoint;  // peer address
  Digest manifest;       // digest of the manifest's bytes
  int64_t created = 0;   // the store's revision when its key came; set by read_workers
};

std::string job_prefix(const std::string& job);  // of all keys
std::string formation_key(const std::string& job);
std::string source_prefix(const std::string& job);
std::string receiver_prefix(const std::string& job);

// kInvalidArgument for a job name outside [A-Za-z0-9._-]{1,128}.
Status check_job_name(const std::string& job);

// kNotFound when no trainer ever joined; kBadData for a record that is not one.
Result<Formation> read_formation(StoreClient& store, const std::string& job, Deadline deadline);

// Joins rank `rank` of `world`; returns the record that holds the caller. Retries lost transactions
// until the deadline. Does not wait for the others. kMismatch: the record is of another world and
// workers of it live; they are given 12 s at most, for one that died is forgotten by its lease.
Result<Formation> join_formation(StoreClient& store, const std::string& job, uint32_t rank,
                                 uint32_t world, const Digest& incarnation, Deadline deadline);

// Gives the rank back, if the record still holds the caller: for one that joined and gave up before
// the set was complete, so that a later rank does not take it for present.
Status leave_formation(StoreClient& store, const std::string& job, uint32_t rank, uint32_t world,
                       const Digest& incarnation, Deadline deadline);

// Waits until the record is complete. If a newer record leaves the caller out and `rejoin`, joins
// again (for workers that have published nothing yet); else kGenerationChanged.
Result<Formation> wait_formation(StoreClient& store, const std::string& job, uint32_t rank,
                                 uint32_t world, const Digest& incarnation, bool rejoin,
                                 Deadline deadline);

Result<std::vector<WorkerRecord>> read_workers(StoreClient& store, const std::string& prefix,
                                               Deadline deadline);

// Keeps one leased key alive from a thread of its own, and puts it again when the lease was lost
// (with a new lease). Withdraws it in close().
class Registration {
 public:
  static Result<std::unique_ptr<Registration>> start(std::shared_ptr<StoreClient> store,
                                                     std::string key, const WorkerRecord& record,
                                                     int64_t ttl_seconds, Deadline deadline);
  virtual ~Registration() = default;
  // Ok while the key is known to be there.
  virtual Status healthy() const = 0;
  virtual Status close(Deadline deadline) = 0;
};

// How long a teardown by `deadline` waits for Registration::close(): a store that hangs leaves half
// of the time for the rest, and is not waited for longer than its lease is worth.
inline Deadline withdraw_by(Deadline deadline) {
  return deadline.capped(
      std::min<Deadline::Clock::duration>(deadline.remaining() / 2, std::chrono::seconds(2)));
}

}  // namespace wb
