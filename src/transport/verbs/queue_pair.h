// Queue pairs and completion queues with owners.
#pragma once

#include <cstdint>
#include <memory>

#include "base/deadline.h"
#include "base/status.h"
#include "transport/verbs/rail.h"
#include "transport/verbs/wire.h"

namespace wb::verbs {

// With a channel, so that a thread can sleep until there is a completion.
class CompletionQueue {
 public:
  static Result<std::unique_ptr<CompletionQueue>> make(std::shared_ptr<Rail> rail, uint32_t entries,
                                                       bool with_channel);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  ibv_cq* get() const { return cq_; }
  // As ibv_poll_cq; negative when the queue is broken.
  int poll(ibv_wc* completions, int most) const { return ibv_poll_cq(cq_, most, completions); }
  // Sleeps until a completion may be there or the deadline comes. The caller polls afterwards; a
  // completion that arrived before the queue was armed is found by the poll inside.
  Status wait(Deadline deadline, ibv_wc* completions, int most, int* got);

 private:
  explicit CompletionQueue(std::shared_ptr<Rail> rail) : rail_(std::move(rail)) {}
  const std::shared_ptr<Rail> rail_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  bool armed_ = false;
};

struct QueueShape {
  uint32_t depth = 1;    // work requests
  uint32_t scatter = 1;  // entries of one
};

// A reliable connection. READ is the only right that it ever gives.
class QueuePair {
 public:
  // In INIT: it has a number, and can be offered to a peer.
  static Result<std::unique_ptr<QueuePair>> make(std::shared_ptr<Rail> rail, ibv_cq* cq,
                                                 QueueShape shape);
  // The NIC no longer touches memory for it when this returns, unless destroying it fails.
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  ibv_qp* get() const { return qp_; }
  uint32_t number() const { return qp_->qp_num; }
  uint32_t psn() const { return psn_; }
  // Work requests that it really takes; at least what was asked for.
  uint32_t depth() const { return shape_.depth; }
  uint32_t scatter() const { return shape_.scatter; }

  struct Peer {
    PathEnd end;
    uint32_t number = 0;
    uint32_t psn = 0;
    uint8_t mtu = 1;
    uint8_t asks = 1;     // READs that it may have outstanding here (max_dest_rd_atomic)
    uint8_t answers = 1;  // READs that may be outstanding there (max_rd_atomic)
  };
  // INIT to RTS; then `asks` and `answers` are what the device says it took.
  Status connect(const Peer& peer, const VerbsOptions& options);
  uint8_t asks() const { return asks_; }
  uint8_t answers() const { return answers_; }

  // Every work request that is in it ends, most of them flushed.
  Status to_error();
  // False: the NIC may still use memory, and the caller must not let it go.
  bool destroy();

 private:
  explicit QueuePair(std::shared_ptr<Rail> rail) : rail_(std::move(rail)) {}
  Status modify(ibv_qp_attr* attr, int mask, const char* to);

  const std::shared_ptr<Rail> rail_;
  ibv_qp* qp_ = nullptr;
  QueueShape shape_;
  uint32_t psn_ = 0;
  uint8_t asks_ = 0;
  uint8_t answers_ = 0;
};

}  // namespace wb::verbs
