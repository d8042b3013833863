// A read list of the verbs transport: its READs in order, which of them are posted, and which must
// be posted again because the path that carried them failed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"
#include "transport/verbs/pieces.h"
#include "transport/verbs/registration.h"
#include "transport/verbs/wire.h"
#include "transport/verbs/work_requests.h"

namespace wb::verbs {

class Link;

// READs [first, first + count) of a job.
struct Range {
  uint64_t first = 0;
  uint64_t count = 0;
};

// What one batch asks for.
struct Taken {
  Range range;
  uint64_t bytes = 0;
};

// Keys by path: keys[path][i] belongs to slice i of the job's slices.
struct JobKeys {
  std::vector<std::vector<uint32_t>> remote;
  std::vector<std::vector<uint32_t>> local;
};

class VerbsJob : public ReadJob {
 public:
  VerbsJob(std::shared_ptr<Link> link, std::vector<Piece> pieces, JobKeys keys,
           std::vector<VerbsKey> regions, std::vector<std::shared_ptr<const Registration>> memory);
  // An active job is aborted, for two seconds at most. Memory that a NIC may still write to after
  // that stays registered for good.
  ~VerbsJob() override;

  JobState state() const override { return state_; }
  Status status() const override { return status_; }
  uint64_t bytes_done() const override { return bytes_done_; }

  const Link* link() const { return link_.get(); }
  // The regions that it reads, for the look at their stamps afterwards.
  const std::vector<VerbsKey>& regions() const { return regions_; }

  Status start();
  // The first failure stays; nothing more is posted, what is in flight ends.
  void stop(Status status);
  bool failed() const { return !status_.ok(); }
  // Reads that are neither posted nor stopped.
  bool has_work() const { return status_.ok() && (next_ < reads_ || !again_.empty()); }
  uint32_t in_flight() const { return in_flight_; }
  void end(JobState state) { state_ = state; }

  // Writes the next READs into `out`, for path `path`: at most `most`, and none after `bytes` are
  // reached. Nothing is taken until the caller says with posted() how many were.
  Taken fill(WorkRequests* out, size_t path, uint32_t most, uint64_t bytes);
  // `taken` was posted, `count` of its READs; its bytes are returned.
  uint64_t posted(const Taken& taken, uint32_t count);
  // A batch ended well / must be posted again.
  void done(uint64_t bytes) {
    --in_flight_;
    bytes_done_ += bytes;
  }
  void again(const Range& range) {
    --in_flight_;
    again_.push_back(range);
  }
  // A batch will never be known to have ended: the NIC may write to the memory from now on.
  void stick(Status why) {
    --in_flight_;
    stuck_ = true;
    stop(std::move(why));
  }
  bool stuck() const { return stuck_; }

 private:
  struct Cursor {
    size_t piece = 0;
    uint64_t read = 0;  // in the piece
  };
  Cursor find(uint64_t index) const;
  uint64_t bytes_of(const Range& range) const;

  const std::shared_ptr<Link> link_;
  std::vector<Piece> pieces_;
  const JobKeys keys_;
  const std::vector<VerbsKey> regions_;
  std::vector<std::shared_ptr<const Registration>> memory_;
  uint64_t reads_ = 0;
  JobState state_ = JobState::kIdle;
  Status status_;
  uint64_t bytes_done_ = 0;
  uint32_t in_flight_ = 0;    // batches
  uint64_t next_ = 0;         // the first READ that was never posted
  Cursor cursor_;             // of next_
  Cursor filled_;             // where the last fill() of new READs ended
  std::vector<Range> again_;  // grows only when a path fails
  bool stuck_ = false;
};

}  // namespace wb::verbs
