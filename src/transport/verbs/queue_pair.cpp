#include "transport/verbs/queue_pair.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/good_guest.h"
#include "base/hash.h"

namespace wb::verbs {
namespace {

constexpr uint32_t kMask24 = 0xffffff;
// Receiver-not-ready cannot happen to READs; the value is the usual one for the case that a device
// answers so while it loads page tables.
constexpr uint8_t kMinRnrTimer = 12;
constexpr uint8_t kRnrRetry = 6;  // 7 is endless
constexpr uint8_t kHopLimit = 64;

}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::make(std::shared_ptr<Rail> rail,
                                                               uint32_t entries,
                                                               bool with_channel) {
  std::unique_ptr<CompletionQueue> out(new CompletionQueue(std::move(rail)));
  const Rail& on = *out->rail_;
  if (on.device().max_cqe > 0 && entries > static_cast<uint32_t>(on.device().max_cqe)) {
    return Status(Code::kUnsupported, on.name() + " has completion queues of at most " +
                                          std::to_string(on.device().max_cqe) + " entries, " +
                                          std::to_string(entries) +
                                          " are needed: lower queue_pairs or read_depth");
  }
  if (with_channel) {
    out->channel_ = on.verbs().create_comp_channel(on.context());
    if (out->channel_ == nullptr) {
      return errno_status(errno, "making a completion channel on " + on.name());
    }
    close_on_exec(out->channel_->fd);
    const int flags = fcntl(out->channel_->fd, F_GETFL);
    if (flags < 0 || fcntl(out->channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
      return errno_status(errno, "the completion channel of " + on.name());
    }
  }
  out->cq_ = on.verbs().create_cq(on.context(), static_cast<int>(entries), out->channel_);
  if (out->cq_ == nullptr) {
    return errno_status(errno, "making a completion queue of " + std::to_string(entries) +
                                   " entries on " + on.name());
  }
  return out;
}

CompletionQueue::~CompletionQueue() {
  if (cq_ != nullptr) rail_->verbs().destroy_cq(cq_);
  if (channel_ != nullptr) rail_->verbs().destroy_comp_channel(channel_);
}

Status CompletionQueue::wait(Deadline deadline, ibv_wc* completions, int most, int* got) {
  if (!armed_) {
    if (const int error = ibv_req_notify_cq(cq_, 0); error != 0) {
      return errno_status(error, "arming a completion queue of " + rail_->name());
    }
    armed_ = true;
    // One that came before the arming raises no event.
    *got = poll(completions, most);
    if (*got != 0) return Status();
  }
  pollfd event{channel_->fd, POLLIN, 0};
  const int ready = ::poll(&event, 1, deadline.remaining_ms());
  if (ready < 0 && errno != EINTR) {
    return errno_status(errno, "waiting for a completion of " + rail_->name());
  }
  if (ready > 0) {
    ibv_cq* cq = nullptr;
    if (rail_->verbs().get_cq_event(channel_, &cq) == 0) {
      rail_->verbs().ack_cq_events(cq, 1);
      armed_ = false;
    }
  }
  *got = poll(completions, most);
  return Status();
}

Result<std::unique_ptr<QueuePair>> QueuePair::make(std::shared_ptr<Rail> rail, ibv_cq* cq,
                                                   QueueShape shape) {
  std::unique_ptr<QueuePair> out(new QueuePair(std::move(rail)));
  const Rail& on = *out->rail_;
  ibv_qp_init_attr init{};
  init.send_cq = cq;
  init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = shape.depth;
  init.cap.max_send_sge = shape.scatter;
  // Some providers refuse 0.
  init.cap.max_recv_wr = 1;
  init.cap.max_recv_sge = 1;
  out->qp_ = on.verbs().create_qp(on.pd(), &init);
  if (out->qp_ == nullptr) {
    const int error = errno;
    Status status = errno_status(error, "making a queue pair on " + on.name());
    if (error != ENOMEM) return status;
    return std::move(status).prefixed("the device has no queue pair left (max_qp " +
                                      std::to_string(on.device().max_qp) +
                                      "), or locked memory is exhausted (ulimit -l): ");
  }
  out->shape_ = {shape.depth, shape.scatter};
  // Guessing a packet sequence number is what an outsider needs to inject an answer.
  out->psn_ = static_cast<uint32_t>(random_id().low) & kMask24;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = on.pkey_index();
  attr.port_num = on.port();
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
  WB_RETURN_IF_ERROR(out->modify(
      &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT"));
  return out;
}

QueuePair::~QueuePair() { destroy(); }

bool QueuePair::destroy() {
  if (qp_ == nullptr) return true;
  return rail_->verbs().destroy_qp(std::exchange(qp_, nullptr)) == 0;
}

Status QueuePair::modify(ibv_qp_attr* attr, int mask, const char* to) {
  const int error = rail_->verbs().modify_qp(qp_, attr, mask);
  if (error == 0) return Status();
  return errno_status(
      error, "queue pair " + std::to_string(qp_->qp_num) + " of " + rail_->name() + " to " + to);
}

Status QueuePair::connect(const Peer& peer, const VerbsOptions& options) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(peer.mtu);
  attr.dest_qp_num = peer.number;
  attr.rq_psn = peer.psn;
  attr.max_dest_rd_atomic = peer.asks;
  attr.min_rnr_timer = kMinRnrTimer;
  attr.ah_attr.port_num = rail_->port();
  attr.ah_attr.sl = options.sl;
  attr.ah_attr.dlid = peer.end.lid;
  // Ethernet has no other address. InfiniBand needs it only between subnets, which pair_rails does
  // not join.
  if (peer.end.layer == LinkLayer::kEthernet) {
    attr.ah_attr.is_global = 1;
    std::memcpy(attr.ah_attr.grh.dgid.raw, peer.end.gid.data(), peer.end.gid.size());
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(rail_->gid_index());
    attr.ah_attr.grh.hop_limit = kHopLimit;
    attr.ah_attr.grh.traffic_class = options.traffic_class;
  }
  WB_RETURN_IF_ERROR(modify(&attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                            "RTR"));
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = psn_;
  attr.max_rd_atomic = peer.answers;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_count;
  attr.rnr_retry = kRnrRetry;
  WB_RETURN_IF_ERROR(modify(&attr,
                            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
                                IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY,
                            "RTS"));
  // What the device took, not what it was asked for.
  ibv_qp_attr now{};
  ibv_qp_init_attr init{};
  const int error = rail_->verbs().query_qp(
      qp_, &now, IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init);
  if (error != 0) return errno_status(error, "reading a queue pair of " + rail_->name() + " back");
  if (now.max_rd_atomic == 0 || now.max_dest_rd_atomic == 0) {
    return Status(Code::kUnsupported,
                  rail_->name() + " took a read depth of 0: it cannot do RDMA READ");
  }
  asks_ = now.max_dest_rd_atomic;
  answers_ = now.max_rd_atomic;
  return Status();
}

Status QueuePair::to_error() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return modify(&attr, IBV_QP_STATE, "ERR");
}

}  // namespace wb::verbs
