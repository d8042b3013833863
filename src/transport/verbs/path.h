// One pair of NICs as one reader uses it: data queue pairs that carry only READs of read lists, one
// queue pair for headers and stamps, and their completion queue.
//
// A path that fails is closed at once: its queue pairs go to ERR and are destroyed, after which the
// NIC touches no memory for them, and every READ that was in flight goes back to its job. Nothing
// is posted again before that, so a late answer can never overwrite newer bytes. A job with READs
// on a queue pair that cannot be destroyed is stuck, for good.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "observe/log.h"
#include "transport/verbs/completion.h"
#include "transport/verbs/job.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/work_requests.h"

namespace wb::verbs {

// A batch does not grow beyond this, so that queue pairs and NICs share large READs evenly.
constexpr uint64_t kBatchBytes = 1u << 20;
// Queue entries of a data queue pair: four read windows keep the NIC busy while completions travel,
// and a batch fits in many times.
constexpr uint32_t kWindows = 4;
constexpr uint32_t kLeastDepth = 4 * kBatch;
// Reads of words outstanding: one for headers, one for stamps.
constexpr uint32_t kWordSlots = 2;

struct PathCounters {
  uint64_t reads = 0;
  uint64_t doorbells = 0;
  uint64_t completions = 0;
  uint64_t bytes = 0;
};

// A READ of words that somebody waits for. Its owner keeps it until it is not posted any more.
struct WordsRead {
  bool posted = false;
  Status status;               // of the last one that ended
  Blame blame = Blame::kPath;  // when that is not ok
};

// Of what is stuck.
Status not_destroyed();

class Path {
 public:
  static Result<std::unique_ptr<Path>> make(std::shared_ptr<Rail> rail, uint32_t queue_pairs,
                                            const VerbsOptions& options, std::string peer, Log log);
  ~Path();
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  // What the source must know to answer; the last offer is the queue pair for words.
  ConnectRequest::Group offer(uint8_t source_rail) const;
  Status connect(const PathEnd& source, const ConnectGrant::Group& grant,
                 const VerbsOptions& options);

  const Rail& rail() const { return *rail_; }
  bool ready() const { return ready_; }
  const Status& failure() const { return failure_; }  // why it is not ready any more
  // False when destroying a queue pair failed: memory may still be written. For good.
  bool clean() const { return clean_; }
  uint8_t depth() const;
  size_t queue_pairs() const { return data_.size(); }
  const PathCounters& counters() const { return counters_; }

  // Takes completions, a bounded number.
  void advance();
  // Posts one batch of the job on the next queue pair that has room. False: none has.
  bool post_batch(VerbsJob* job, size_t path);
  bool carries(const VerbsJob* job) const;

  // One READ of words into `local`; `slot` is below kWordSlots and not in use.
  Status post_words(uint32_t slot, WordsRead* read, uint64_t remote, uint32_t rkey, uint64_t local,
                    uint32_t bytes, uint32_t lkey);
  // Sleeps until a completion may be there.
  Status wait(Deadline deadline);

  // Closes the path; what was in flight goes back to its jobs.
  void fail(Status why);

 private:
  // READs posted with one doorbell.
  struct Batch {
    VerbsJob* job = nullptr;  // none: a seal
    Range range;
    uint64_t bytes = 0;
    bool told = true;  // its last READ is signalled; false after a partial post
  };
  // A data queue pair. Batches end in order: `ring` is a queue with a power of two of places.
  struct Channel {
    Channel(std::unique_ptr<QueuePair> pair, uint32_t token);
    Batch& at(uint32_t i) { return ring[i & (ring.size() - 1)]; }
    const Batch& at(uint32_t i) const { return ring[i & (ring.size() - 1)]; }
    bool idle() const { return head == tail; }

    std::unique_ptr<QueuePair> pair;
    WorkRequests requests;
    std::vector<Batch> ring;
    uint32_t head = 0;
    uint32_t tail = 0;
    uint32_t used = 0;      // entries of the send queue
    uint32_t told = 0;      // batches in flight that a completion will tell of
    uint32_t refusals = 0;  // in a row, with nothing in flight that could make room
  };

  Path(std::shared_ptr<Rail> rail, std::string peer, Log log)
      : rail_(std::move(rail)), peer_(std::move(peer)), log_(std::move(log)) {}
  void take(const ibv_wc& completion);
  void take_words(const ibv_wc& completion);
  void take_data(Channel* channel, const ibv_wc& completion);
  bool post_on(Channel* channel, VerbsJob* job, size_t path);
  // Posts a READ of no bytes whose completion tells of what was posted before it.
  void seal(Channel* channel);
  void refused(Channel* channel, int error);
  Status meaning(const ibv_wc& completion, const Range& range) const;

  const std::shared_ptr<Rail> rail_;
  const std::string peer_;
  const Log log_;
  std::unique_ptr<CompletionQueue> completions_;
  std::vector<std::unique_ptr<Channel>> data_;
  size_t next_ = 0;  // channel that posts next
  std::unique_ptr<QueuePair> words_;
  WordsRead* reads_[kWordSlots] = {};
  bool ready_ = false;
  bool clean_ = true;
  Status failure_;
  PathCounters counters_;
};

}  // namespace wb::verbs
