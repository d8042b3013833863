// How READs are executed.
#include <unistd.h>
#include <algorithm>
#include <cstring>

#include "base/racy_copy.h"
#include "transport/fake/objects.h"

namespace wb::fake {
namespace {

constexpr int kStepsAtOnce = 16;

verbs::Gid gid_of(const ibv_gid& gid) {
  verbs::Gid out;
  std::memcpy(out.data(), gid.raw, out.size());
  return out;
}

const Region* region_at(const Nic& nic, uint32_t key, const ibv_pd* pd, uint64_t address,
                        uint64_t bytes, unsigned access) {
  const auto found = nic.regions.find(key);
  if (found == nic.regions.end() || found->second->pd != pd) return nullptr;
  const Region& region = *found->second;
  const auto begin = reinterpret_cast<uint64_t>(region.addr);
  if ((region.access & access) != access || address < begin || bytes > region.length ||
      address - begin > region.length - bytes) {
    return nullptr;
  }
  return &region;
}

}  // namespace

bool Fabric::State::runnable(const Qp& qp) const {
  return !qp.queue.empty() && !qp.nic->removed && qp.state == IBV_QPS_RTS;
}

bool Fabric::State::step() {
  if (held) return false;
  std::vector<Qp*> candidates;
  for (const auto& host : hosts) {
    for (const auto& nic : host->nics) {
      for (const auto& [number, qp] : nic->qps) {
        if (runnable(*qp)) candidates.push_back(qp);
      }
    }
  }
  if (candidates.empty()) return false;
  work_on(candidates[random() % candidates.size()]);
  return true;
}

void Fabric::State::run() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    bool worked = true;
    for (int i = 0; i < kStepsAtOnce && worked; ++i) worked = step();
    if (worked) {
      // Others get at the fabric in between.
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    } else {
      work.wait_for(lock, std::chrono::milliseconds(5));
    }
  }
}

// The window of READs that are outstanding: one of them advances. They complete in order.
void Fabric::State::work_on(Qp* qp) {
  const size_t window =
      std::min<size_t>(qp->queue.size(), std::max<size_t>(1, qp->attr.max_rd_atomic));
  Read* read = &qp->queue[random() % window];
  for (size_t i = 0; read->ended() && i < window; ++i) read = &qp->queue[i];
  if (!read->ended()) {
    if (read->delay != 0) {
      --read->delay;
    } else if (!read->begun) {
      begin(qp, read);
    } else {
      copy_chunk(qp, read);
    }
  }
  end_head(qp);
}

void Fabric::State::end_head(Qp* qp) {
  while (!qp->queue.empty() && qp->queue.front().ended()) {
    const Read read = std::move(qp->queue.front());
    qp->queue.pop_front();
    if (read.status == IBV_WC_SUCCESS) {
      if (read.signalled) complete(qp, read, IBV_WC_SUCCESS, 0);
      continue;
    }
    complete(qp, read, read.status, read.vendor);
    if (read.status == IBV_WC_REM_ACCESS_ERR) {
      if (Qp* const responder = responder_of(*qp); responder != nullptr) to_error(responder);
    }
    to_error(qp);
  }
}

Qp* Fabric::State::responder_of(const Qp& qp) const {
  const Nic* nic = nullptr;
  const verbs::Gid wanted = gid_of(qp.attr.ah_attr.grh.dgid);
  for (const auto& host : hosts) {
    for (const auto& one : host->nics) {
      const bool here =
          qp.attr.ah_attr.is_global != 0
              ? std::any_of(one->caps.gids.begin(), one->caps.gids.end(),
                            [&](const verbs::GidRow& row) { return row.gid == wanted; })
              : one->caps.lid != 0 && one->caps.lid == qp.attr.ah_attr.dlid;
      if (here) nic = one.get();
    }
  }
  if (nic == nullptr || nic->removed || !nic->up || !qp.nic->up) return nullptr;
  const auto found = nic->qps.find(qp.attr.dest_qp_num);
  if (found == nic->qps.end()) return nullptr;
  Qp* const peer = found->second;
  // Both sides must have each other's number and sequence number, or no packet is taken.
  const bool answers = (peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS) &&
                       peer->attr.dest_qp_num == qp.qp_num && peer->attr.rq_psn == qp.attr.sq_psn;
  return answers ? peer : nullptr;
}

void Fabric::State::begin(Qp* qp, Read* read) {
  Nic& nic = *qp->nic;
  ++reads;
  read->begun = true;
  if (nic.fail && nic.fail_after-- == 0) {
    nic.fail = false;
    read->status = nic.fail_status;
    read->vendor = nic.fail_vendor;
    return;
  }
  if (!nic.up) {
    read->status = IBV_WC_LOC_QP_OP_ERR;
    return;
  }
  const Qp* const peer = responder_of(*qp);
  if (peer == nullptr) {
    read->status = IBV_WC_RETRY_EXC_ERR;
    return;
  }
  if (read->bytes == 0) return;
  if (read->bytes > nic.caps.message_bytes) {
    read->status = IBV_WC_LOC_LEN_ERR;
    return;
  }
  if (qp->attr.max_rd_atomic > peer->attr.max_dest_rd_atomic) {
    read->status = IBV_WC_REM_INV_REQ_ERR;
    return;
  }
  for (uint64_t at = 0; at < read->bytes; at += script.chunk) read->chunks.push_back(at);
  std::shuffle(read->chunks.begin(), read->chunks.end(), random);
}

// Rights are looked at for each chunk: memory may be deregistered between two.
void Fabric::State::copy_chunk(Qp* qp, Read* read) {
  const uint64_t at = read->chunks.back();
  read->chunks.pop_back();
  const uint64_t length = std::min<uint64_t>(script.chunk, read->bytes - at);
  const auto stop = [&](ibv_wc_status status) {
    read->status = status;
    read->chunks.clear();
  };
  if (!qp->nic->up) return stop(IBV_WC_LOC_QP_OP_ERR);
  const Qp* const peer = responder_of(*qp);
  if (peer == nullptr) return stop(IBV_WC_RETRY_EXC_ERR);
  if (region_at(*peer->nic, read->rkey, peer->pd, read->remote, read->bytes,
                IBV_ACCESS_REMOTE_READ) == nullptr) {
    return stop(IBV_WC_REM_ACCESS_ERR);
  }
  uint64_t before = 0;  // bytes of the entries that were passed
  for (const ibv_sge& entry : read->entries) {
    const uint64_t begin = std::max(before, at);
    const uint64_t end = std::min(before + entry.length, at + length);
    if (begin < end) {
      const uint64_t to = entry.addr + (begin - before);
      if (region_at(*qp->nic, entry.lkey, qp->pd, entry.addr, entry.length,
                    IBV_ACCESS_LOCAL_WRITE) == nullptr) {
        return stop(IBV_WC_LOC_PROT_ERR);
      }
      racy_copy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(read->remote + begin),
                end - begin);
      bytes += end - begin;
    }
    before += entry.length;
  }
}

// What is in the queue is flushed: every work request, signalled or not, gets a completion.
void Fabric::State::to_error(Qp* qp) {
  qp->state = IBV_QPS_ERR;
  for (const Read& read : qp->queue) complete(qp, read, IBV_WC_WR_FLUSH_ERR, 0);
  qp->queue.clear();
}

void Fabric::State::complete(Qp* qp, const Read& read, ibv_wc_status status, uint32_t vendor) {
  if (qp->nic->removed) return;
  auto* cq = static_cast<Cq*>(qp->send_cq);
  if (cq->completions.size() >= static_cast<size_t>(cq->cqe)) {
    // An overrun loses completions and breaks the queue: a reader that sizes it right never sees
    // it.
    ++overruns;
    raise(qp->nic, IBV_EVENT_CQ_ERR);
    return;
  }
  Completion completion;
  completion.wc.wr_id = read.wr_id;
  completion.wc.status = status;
  completion.wc.opcode = IBV_WC_RDMA_READ;
  completion.wc.vendor_err = vendor;
  completion.wc.byte_len = static_cast<uint32_t>(read.bytes);
  completion.wc.qp_num = qp->qp_num;
  completion.sequence = read.sequence;
  cq->completions.push_back(completion);
  if (!cq->armed || cq->channel == nullptr) return;
  cq->armed = false;
  auto* channel = static_cast<Channel*>(cq->channel);
  channel->events.push_back(cq);
  const uint64_t one = 1;
  (void)!write(channel->fd, &one, sizeof one);
}

void Fabric::State::raise(Nic* nic, ibv_event_type type) {
  for (Context* context : nic->contexts) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.port_num = 1;
    context->events.push_back(event);
    const uint64_t one = 1;
    (void)!write(context->async_fd, &one, sizeof one);
  }
}

}  // namespace wb::fake
