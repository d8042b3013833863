// The trainer's side: registers once, then says "version v is ready". Never sends, never waits for
// a reader.
#pragma once

#include <cstdint>
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

enum class PublishMode : uint8_t {
  kInPlace = 1,   // the live buffers are what receivers read: publish is one store
  kSnapshot = 2,  // publish copies into one of n slots; the live buffers are free at once
};

struct PublisherOptions {
  uint32_t rank = 0;
  uint32_t world = 1;
  PublishMode mode = PublishMode::kInPlace;
  uint32_t slots = 2;  // snapshot only; >= 2
  bool huge_pages = false;
};

struct PublisherStats {
  uint64_t published = 0;        // versions
  uint64_t last_publish_ns = 0;  // time inside the last publish()
  uint64_t last_begin_ns = 0;    // time inside the last begin_update()
  uint64_t max_publish_ns = 0;
  Version version;  // last published
};

// begin_update and publish: one thread at a time (the training loop's). stats: any thread.
class Publisher {
 public:
  // Returns when all `world` ranks have joined, or at the deadline.
  static Result<std::unique_ptr<Publisher>> create(std::shared_ptr<Job> job, TensorTable table,
                                                   WorkerLayout layout,
                                                   std::vector<BoundBuffer> buffers,
                                                   const PublisherOptions& options,
                                                   Deadline deadline);
  // Closes with a bounded wait and logs what did not end; call close() to hear of it.
  virtual ~Publisher() = default;

  // In-place: from here to publish() the buffers may change. The first update has begun at
  // create(). Snapshot: allowed and without effect. `stream`: CUDA stream whose earlier work
  // precedes the change; null: nothing pending. kUnsupported in a build without CUDA when not null.
  virtual Status begin_update(void* stream) = 0;
  // The buffers now hold version `number` (greater than the last one of this generation). Errors:
  // kFailedPrecondition (in-place without begin_update; a number that does not grow),
  // kGenerationChanged (the set of ranks was re-formed without this worker; nothing is published;
  // rejoin() to go on).
  virtual Status publish(uint64_t number, void* stream) = 0;
  // Joins the newest set of ranks with the weights that this process holds; waits until it is
  // complete.
  virtual Status rejoin(Deadline deadline) = 0;

  virtual PublisherStats stats() const = 0;
  virtual std::string report() const = 0;  // start-up report: what was chosen and why, as JSON
  // Stops serving: readers get kPeerLost. Bounded; afterwards the buffers may be freed.
  virtual Status close(Deadline deadline) = 0;
};

}  // namespace wb
