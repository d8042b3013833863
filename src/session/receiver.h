// The rollout worker's side: pulls one version of what its layout needs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "session/job.h"
#include "session/version.h"

namespace wb {

struct Want {
  enum class Kind : uint8_t { kLatest = 1, kExactly = 2, kAtLeast = 3 } kind = Kind::kLatest;
  uint64_t number = 0;
};

// Of the memory that a pull writes (the bound buffers of a live pull, else the staging set).
enum class MemoryState : uint8_t {
  kUntouched = 1,  // as before the call
  kComplete = 2,   // exactly report.version in every byte
  kTorn = 3,       // bytes of unknown versions: pull again before use
};

// Steps of a pull; also the events of ReceiverOptions::on_event.
enum class PullStep : uint8_t {
  kDiscover = 1,  // formation, manifests
  kPlan = 2,      // plan and proof
  kConnect = 3,   // transports, jobs
  kWait = 4,      // for the trainer ranks to form, then for a version that all needed sources hold
  kRead = 5,      // posting to last completion
  kCheck = 6,     // second look at the headers
  kInstall = 7,   // zero fill; install() of a staging set
};

struct PullEvent {
  enum class Kind : uint8_t {
    kStepBegin = 1,
    kStepEnd = 2,
    kFirstBytes = 3,  // some bytes of `source` have been read, not all headers are checked
    kTorn = 4,        // `source` changed during the read: the attempt is discarded
    kSourceLost = 5,  // `source` died; the pull goes on without it if others hold its bytes
  } kind = Kind::kStepBegin;
  PullStep step = PullStep::kDiscover;
  std::string source;
  Version version;
};

struct TimelineEntry {
  PullStep step = PullStep::kDiscover;
  uint64_t begin_ns = 0;  // since the call of pull()
  uint64_t end_ns = 0;
};

struct SourceReport {
  std::string worker;
  std::string transport;  // "local"
  std::string mechanism;  // "mapped memfd"
  std::string reason;     // why this transport
  uint64_t bytes = 0;     // read in the accepted attempt
  uint64_t reads = 0;
};

struct PullReport {
  Version version;  // accepted, or last tried
  MemoryState memory = MemoryState::kUntouched;
  uint64_t bytes = 0;
  uint64_t reads = 0;
  uint32_t attempts = 0;
  uint32_t torn = 0;  // attempts discarded
  uint64_t versions_skipped =
      0;                 // numbers between this version and the last one this receiver pulled
  uint64_t read_ns = 0;  // kRead of the accepted attempt
  uint64_t total_ns = 0;
  std::vector<SourceReport> sources;
  std::vector<TimelineEntry> timeline;
  std::vector<std::string>
      finalisers;  // names of computed extras that the engine must recompute now
};

struct ReceiverOptions {
  std::string name;      // unique in the job: "rollout-0"
  uint32_t index = 0;    // place among the receivers, for people who read the records
  bool staging = false;  // pull into a second set of memory; install() copies it into the buffers
  bool huge_pages = false;  // of the staging set
  // Called on the pulling thread; may block (the pull's deadline goes on).
  std::function<void(const PullEvent&)> on_event;
};

// pull and install: one thread at a time.
class Receiver {
 public:
  // Registers the buffers and, with staging, allocates the second set: kNoMemory is known here.
  // Does not wait for trainers.
  static Result<std::unique_ptr<Receiver>> create(std::shared_ptr<Job> job, TensorTable table,
                                                  WorkerLayout layout,
                                                  std::vector<BoundBuffer> buffers,
                                                  ReceiverOptions options, Deadline deadline);
  virtual ~Receiver() = default;

  // Ends with exactly one version in every byte (ok) or with a typed error; *report is filled in
  // both cases. A torn attempt is retried at once with the newest version that `want` allows;
  // kStarved when the deadline ends that, kDeadline when no version came, kPeerLost when no source
  // is left for some bytes, kGenerationChanged never (a newer generation is simply pulled).
  virtual Status pull(const Want& want, Deadline deadline, PullReport* report) = 0;
  // Staging only: copies the last complete pull into the buffers. kFailedPrecondition without one.
  virtual Status install(PullReport* report) = 0;

  virtual std::string report() const = 0;  // start-up report, as JSON
  virtual Status close(Deadline deadline) = 0;
};

}  // namespace wb
