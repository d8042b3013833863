// The table of verbs of the fake NIC: what a program may call, checked as strictly as a strict
// provider checks it.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/racy_copy.h"
#include "transport/fake/objects.h"

namespace wb::fake {
namespace {

Nic& nic_of(ibv_context* context) { return *static_cast<Context*>(context)->nic; }
Fabric::State& fabric_of(ibv_context* context) { return *nic_of(context).fabric; }

int new_eventfd(int flags) { return eventfd(0, EFD_CLOEXEC | flags); }

// Takes one from an eventfd used as a counter of events: false when there is none.
bool take_event(int fd) {
  uint64_t value = 0;
  return read(fd, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
}

uint64_t used(const Qp& qp) { return qp.next_sequence - qp.freed; }

// ---- posting and polling ----

// What is wrong with the request; 0 for nothing.
int check_request(const Qp& qp, const ibv_send_wr& wr) {
  if (wr.opcode != IBV_WR_RDMA_READ || (wr.send_flags & ~unsigned{IBV_SEND_SIGNALED}) != 0) {
    return EINVAL;
  }
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > qp.cap.max_send_sge) return EINVAL;
  return used(qp) < qp.cap.max_send_wr ? 0 : ENOMEM;
}

int post_send(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr** bad) {
  Qp& qp = *static_cast<Qp*>(base);
  Fabric::State& fabric = *qp.nic->fabric;
  const std::lock_guard lock(fabric.mutex);
  uint32_t left = UINT32_MAX;
  if (qp.nic->limited_calls != 0) {
    --qp.nic->limited_calls;
    left = qp.nic->limit;
  }
  for (; wr != nullptr; wr = wr->next) {
    int error =
        qp.state == IBV_QPS_RTS || qp.state == IBV_QPS_ERR ? check_request(qp, *wr) : EINVAL;
    if (left-- == 0 || (qp.nic->stops && qp.nic->stop_after == 0)) error = qp.nic->limit_error;
    if (error != 0) {
      *bad = wr;
      return error;
    }
    if (qp.nic->stops) --qp.nic->stop_after;
    Read read;
    read.wr_id = wr->wr_id;
    read.sequence = qp.next_sequence++;
    read.signalled = (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    read.remote = wr->wr.rdma.remote_addr;
    read.rkey = wr->wr.rdma.rkey;
    read.entries.assign(wr->sg_list, wr->sg_list + wr->num_sge);
    for (const ibv_sge& entry : read.entries) read.bytes += entry.length;
    read.delay = fabric.script.delay;
    if (qp.state == IBV_QPS_ERR) {
      fabric.complete(&qp, read, IBV_WC_WR_FLUSH_ERR, 0);
    } else {
      qp.queue.push_back(std::move(read));
    }
  }
  fabric.work.notify_one();
  return 0;
}

int poll_cq(ibv_cq* base, int most, ibv_wc* out) {
  Cq& cq = *static_cast<Cq*>(base);
  Nic& nic = nic_of(cq.context);
  const std::lock_guard lock(nic.fabric->mutex);
  if (nic.fabric->script.engine == Engine::kOnPoll) {
    for (uint32_t i = 0; i < nic.fabric->script.steps_per_poll && nic.fabric->step(); ++i) {
    }
  }
  int got = 0;
  for (; got < most && !cq.completions.empty(); ++got) {
    const Completion& completion = cq.completions.front();
    out[got] = completion.wc;
    // What the queue pair holds becomes free only as its completions are taken.
    const auto qp = nic.qps.find(completion.wc.qp_num);
    if (qp != nic.qps.end()) {
      qp->second->freed = std::max(qp->second->freed, completion.sequence + 1);
    }
    cq.completions.pop_front();
  }
  return got;
}

int req_notify_cq(ibv_cq* base, int) {
  Cq& cq = *static_cast<Cq*>(base);
  const std::lock_guard lock(fabric_of(cq.context).mutex);
  cq.armed = true;
  return 0;
}

// Engine::kInstant: READs are complete when they are posted. One that is posted alone is of words
// and brings them; the data of read lists is left where it is.
int post_instantly(ibv_qp* base, ibv_send_wr* wr, ibv_send_wr**) {
  Qp& qp = *static_cast<Qp*>(base);
  Cq& cq = *static_cast<Cq*>(qp.send_cq);
  if (wr->next == nullptr && wr->num_sge == 1) {
    racy_copy(reinterpret_cast<void*>(wr->sg_list->addr),
              reinterpret_cast<const void*>(wr->wr.rdma.remote_addr), wr->sg_list->length);
  }
  for (; wr != nullptr; wr = wr->next) {
    if ((wr->send_flags & IBV_SEND_SIGNALED) == 0) continue;
    ibv_wc& wc = cq.ring[cq.tail++ & (cq.ring.size() - 1)];
    wc.wr_id = wr->wr_id;
    wc.status = IBV_WC_SUCCESS;
    wc.qp_num = qp.qp_num;
  }
  return 0;
}

int poll_instantly(ibv_cq* base, int most, ibv_wc* out) {
  Cq& cq = *static_cast<Cq*>(base);
  int got = 0;
  for (; got < most && cq.head != cq.tail; ++got)
    out[got] = cq.ring[cq.head++ & (cq.ring.size() - 1)];
  return got;
}

// ---- the table ----

class FakeVerbs : public verbs::Verbs {
 public:
  FakeVerbs(std::shared_ptr<Fabric::State> fabric, size_t host)
      : fabric_(std::move(fabric)), host_(host) {}

  ibv_device** get_device_list(int* count) const override {
    const std::lock_guard lock(fabric_->mutex);
    const auto& nics = fabric_->hosts.at(host_)->nics;
    auto** list = new ibv_device*[nics.size() + 1];
    size_t n = 0;
    for (const auto& nic : nics) {
      if (!nic->removed) list[n++] = &nic->device;
    }
    list[n] = nullptr;
    *count = static_cast<int>(n);
    return list;
  }
  void free_device_list(ibv_device** list) const override { delete[] list; }

  ibv_context* open_device(ibv_device* device) const override {
    const std::lock_guard lock(fabric_->mutex);
    auto* context = new Context();
    context->nic = static_cast<Device*>(device)->nic;
    context->device = device;
    // Counts events one by one; blocking, as libibverbs makes it.
    context->async_fd = new_eventfd(EFD_SEMAPHORE);
    const bool instant = fabric_->script.engine == Engine::kInstant;
    context->ops.post_send = instant ? post_instantly : post_send;
    context->ops.poll_cq = instant ? poll_instantly : poll_cq;
    context->ops.req_notify_cq = req_notify_cq;
    context->nic->contexts.push_back(context);
    ++fabric_->live.contexts;
    return context;
  }
  int close_device(ibv_context* base) const override {
    const std::lock_guard lock(fabric_->mutex);
    auto* context = static_cast<Context*>(base);
    std::erase(context->nic->contexts, context);
    close(context->async_fd);
    delete context;
    --fabric_->live.contexts;
    return 0;
  }

  int query_device(ibv_context* context, ibv_device_attr* out) const override {
    const NicCaps& caps = nic_of(context).caps;
    *out = {};
    out->vendor_id = caps.vendor;
    out->vendor_part_id = 1;
    out->max_mr_size = caps.region_bytes;
    out->max_qp = caps.queue_pairs;
    out->max_qp_wr = caps.queue;
    out->max_sge = caps.sge;
    out->max_sge_rd = caps.sge;
    out->max_cqe = caps.cqe;
    out->max_mr = caps.regions;
    out->max_qp_rd_atom = caps.read_depth;
    out->max_qp_init_rd_atom = caps.read_depth;
    out->phys_port_cnt = 1;
    return 0;
  }
  int query_port(ibv_context* context, uint8_t port, ibv_port_attr* out) const override {
    const std::lock_guard lock(fabric_->mutex);
    const Nic& nic = nic_of(context);
    if (port != 1) return EINVAL;
    *out = {};
    out->state = nic.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    out->max_mtu = nic.caps.mtu;
    out->active_mtu = nic.caps.mtu;
    out->gid_tbl_len = 16;
    out->max_msg_sz = nic.caps.message_bytes;
    out->pkey_tbl_len = static_cast<uint16_t>(nic.caps.pkeys.size());
    out->lid = nic.caps.lid;
    out->active_width = nic.caps.width;
    out->active_speed = nic.caps.speed;
    out->link_layer = nic.caps.layer == verbs::LinkLayer::kEthernet ? IBV_LINK_LAYER_ETHERNET
                                                                    : IBV_LINK_LAYER_INFINIBAND;
    return 0;
  }
  int query_gid(ibv_context* context, uint8_t, uint32_t index, ibv_gid_entry* out) const override {
    const std::lock_guard lock(fabric_->mutex);
    for (const verbs::GidRow& row : nic_of(context).caps.gids) {
      if (row.index != index) continue;
      *out = {};
      std::memcpy(out->gid.raw, row.gid.data(), row.gid.size());
      out->gid_index = index;
      out->port_num = 1;
      out->gid_type = row.type == verbs::GidType::kRoce2   ? IBV_GID_TYPE_ROCE_V2
                      : row.type == verbs::GidType::kRoce1 ? IBV_GID_TYPE_ROCE_V1
                                                           : IBV_GID_TYPE_IB;
      return 0;
    }
    return ENODATA;
  }
  int query_pkey(ibv_context* context, uint8_t, int index, __be16* out) const override {
    const auto& pkeys = nic_of(context).caps.pkeys;
    if (index < 0 || static_cast<size_t>(index) >= pkeys.size()) return EINVAL;
    *out = __builtin_bswap16(pkeys[static_cast<size_t>(index)]);
    return 0;
  }

  ibv_pd* alloc_pd(ibv_context* context) const override {
    const std::lock_guard lock(fabric_->mutex);
    auto* pd = new Pd();
    pd->context = context;
    ++fabric_->live.pds;
    return pd;
  }
  int dealloc_pd(ibv_pd* base) const override {
    const std::lock_guard lock(fabric_->mutex);
    auto* pd = static_cast<Pd*>(base);
    if (pd->users != 0) return EBUSY;
    delete pd;
    --fabric_->live.pds;
    return 0;
  }

  ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t bytes, unsigned access) const override {
    const std::lock_guard lock(fabric_->mutex);
    Nic& nic = nic_of(pd->context);
    if (nic.region_error != 0 || bytes > nic.caps.region_bytes ||
        nic.regions.size() >= static_cast<size_t>(nic.caps.regions)) {
      errno = nic.region_error != 0 ? nic.region_error : ENOMEM;
      return nullptr;
    }
    auto* region = new Region();
    region->context = pd->context;
    region->pd = pd;
    region->addr = address;
    region->length = bytes;
    // Local and remote keys differ, so that one used for the other is found.
    region->lkey = nic.next_key << 1;
    region->rkey = nic.next_key << 1 | 1;
    ++nic.next_key;
    region->access = access;
    nic.regions[region->lkey] = region;
    nic.regions[region->rkey] = region;
    ++static_cast<Pd*>(pd)->users;
    ++fabric_->live.regions;
    return region;
  }
  int dereg_mr(ibv_mr* base) const override {
    const std::lock_guard lock(fabric_->mutex);
    auto* region = static_cast<Region*>(base);
    Nic& nic = nic_of(region->context);
    nic.regions.erase(region->lkey);
    nic.regions.erase(region->rkey);
    --static_cast<Pd*>(region->pd)->users;
    delete region;
    --fabric_->live.regions;
    return 0;
  }

  ibv_comp_channel* create_comp_channel(ibv_context* context) const override {
    const std::lock_guard lock(fabric_->mutex);
    auto* channel = new Channel();
    channel->context = context;
    channel->fd = new_eventfd(EFD_SEMAPHORE);
    ++fabric_->live.channels;
    return channel;
  }
  int destroy_comp_channel(ibv_comp_channel* base) const override {
    const std::lock_guard lock(fabric_->mutex);
    auto* channel = static_cast<Channel*>(base);
    close(channel->fd);
    delete channel;
    --fabric_->live.channels;
    return 0;
  }
  ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) const override {
    const std::lock_guard lock(fabric_->mutex);
    if (entries < 1 || entries > nic_of(context).caps.cqe) {
      errno = EINVAL;
      return nullptr;
    }
    auto* cq = new Cq();
    cq->context = context;
    cq->channel = channel;
    cq->cqe = entries;
    size_t places = 1;
    while (places < static_cast<size_t>(entries)) places *= 2;
    if (fabric_->script.engine == Engine::kInstant) cq->ring.resize(places);
    ++fabric_->live.cqs;
    return cq;
  }
  int destroy_cq(ibv_cq* base) const override {
    const std::lock_guard lock(fabric_->mutex);
    auto* cq = static_cast<Cq*>(base);
    if (cq->users != 0) return EBUSY;
    if (cq->channel != nullptr) std::erase(static_cast<Channel*>(cq->channel)->events, cq);
    delete cq;
    --fabric_->live.cqs;
    return 0;
  }
  int get_cq_event(ibv_comp_channel* base, ibv_cq** cq) const override {
    auto* channel = static_cast<Channel*>(base);
    if (!take_event(channel->fd)) return -1;
    const std::lock_guard lock(fabric_->mutex);
    if (channel->events.empty()) return -1;
    *cq = channel->events.front();
    channel->events.pop_front();
    return 0;
  }
  void ack_cq_events(ibv_cq*, unsigned) const override {}

  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* init) const override {
    const std::lock_guard lock(fabric_->mutex);
    Nic& nic = nic_of(pd->context);
    const ibv_qp_cap& cap = init->cap;
    if (init->qp_type != IBV_QPT_RC || cap.max_send_wr > static_cast<uint32_t>(nic.caps.queue) ||
        cap.max_send_sge > static_cast<uint32_t>(nic.caps.sge)) {
      errno = EINVAL;
      return nullptr;
    }
    if (nic.qps.size() >= static_cast<size_t>(nic.caps.queue_pairs)) {
      errno = ENOMEM;
      return nullptr;
    }
    auto* qp = new Qp();
    qp->nic = &nic;
    qp->context = pd->context;
    qp->pd = pd;
    qp->send_cq = init->send_cq;
    qp->recv_cq = init->recv_cq;
    qp->qp_type = init->qp_type;
    qp->qp_num = fabric_->next_qp++;
    qp->state = IBV_QPS_RESET;
    qp->cap = cap;
    nic.qps[qp->qp_num] = qp;
    ++static_cast<Pd*>(pd)->users;
    ++static_cast<Cq*>(init->send_cq)->users;
    ++fabric_->live.qps;
    return qp;
  }
  int modify_qp(ibv_qp* base, ibv_qp_attr* attr, int mask) const override {
    const std::lock_guard lock(fabric_->mutex);
    auto* qp = static_cast<Qp*>(base);
    if (attr->qp_state == IBV_QPS_ERR && mask == IBV_QP_STATE) {
      if (qp->nic->destroy_error != 0) return qp->nic->destroy_error;
      fabric_->to_error(qp);
      return 0;
    }
    if (attr->qp_state == IBV_QPS_INIT) return to_init(qp, *attr, mask);
    if (attr->qp_state == IBV_QPS_RTR) return to_receive(qp, *attr, mask);
    if (attr->qp_state == IBV_QPS_RTS) return to_send(qp, *attr, mask);
    return EINVAL;
  }
  int query_qp(ibv_qp* base, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) const override {
    const std::lock_guard lock(fabric_->mutex);
    const auto* qp = static_cast<const Qp*>(base);
    *attr = qp->attr;
    attr->qp_state = qp->state;
    *init = {};
    init->cap = qp->cap;
    return 0;
  }
  // Nothing is copied for the queue pair once this has the lock.
  int destroy_qp(ibv_qp* base) const override {
    const std::lock_guard lock(fabric_->mutex);
    auto* qp = static_cast<Qp*>(base);
    if (qp->nic->destroy_error != 0) return qp->nic->destroy_error;
    auto* cq = static_cast<Cq*>(qp->send_cq);
    if (!qp->nic->caps.keeps_completions) {
      std::erase_if(cq->completions, [qp](const Completion& completion) {
        return completion.wc.qp_num == qp->qp_num;
      });
    }
    qp->nic->qps.erase(qp->qp_num);
    --static_cast<Pd*>(qp->pd)->users;
    --cq->users;
    delete qp;
    --fabric_->live.qps;
    return 0;
  }

  int get_async_event(ibv_context* base, ibv_async_event* event) const override {
    auto* context = static_cast<Context*>(base);
    if (!take_event(context->async_fd)) return -1;
    const std::lock_guard lock(fabric_->mutex);
    if (context->events.empty()) return -1;
    *event = context->events.front();
    context->events.pop_front();
    return 0;
  }
  void ack_async_event(ibv_async_event*) const override {}

  int numa_node(const ibv_device* device) const override {
    return static_cast<const Device*>(device)->nic->caps.numa_node;
  }
  std::string origin() const override { return "fake NICs in memory"; }

 private:
  // The masks are those that the specification requires, no bit more or less.
  static int to_init(Qp* qp, const ibv_qp_attr& attr, int mask) {
    constexpr int kMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    if (qp->state != IBV_QPS_RESET || mask != kMask || attr.port_num != 1 ||
        attr.pkey_index >= qp->nic->caps.pkeys.size()) {
      return EINVAL;
    }
    qp->attr.pkey_index = attr.pkey_index;
    qp->attr.qp_access_flags = attr.qp_access_flags;
    qp->state = IBV_QPS_INIT;
    return 0;
  }
  static int to_receive(Qp* qp, const ibv_qp_attr& attr, int mask) {
    constexpr int kMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                          IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    const NicCaps& caps = qp->nic->caps;
    const auto index = attr.ah_attr.grh.sgid_index;
    const bool addressed =
        caps.layer == verbs::LinkLayer::kInfiniBand
            ? attr.ah_attr.dlid != 0
            : attr.ah_attr.is_global == 1 &&
                  std::any_of(caps.gids.begin(), caps.gids.end(),
                              [index](const auto& row) { return row.index == index; });
    if (qp->state != IBV_QPS_INIT || mask != kMask || !addressed || attr.path_mtu > caps.mtu ||
        attr.path_mtu < IBV_MTU_256 || attr.max_dest_rd_atomic > caps.read_depth) {
      return EINVAL;
    }
    qp->attr.path_mtu = attr.path_mtu;
    qp->attr.ah_attr = attr.ah_attr;
    qp->attr.dest_qp_num = attr.dest_qp_num;
    qp->attr.rq_psn = attr.rq_psn;
    qp->attr.max_dest_rd_atomic = cut(caps, attr.max_dest_rd_atomic);
    qp->state = IBV_QPS_RTR;
    return 0;
  }
  static int to_send(Qp* qp, const ibv_qp_attr& attr, int mask) {
    constexpr int kMask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT |
                          IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
    if (qp->state != IBV_QPS_RTR || mask != kMask ||
        attr.max_rd_atomic > qp->nic->caps.read_depth || attr.retry_cnt > 7 || attr.timeout > 31) {
      return EINVAL;
    }
    qp->attr.sq_psn = attr.sq_psn;
    qp->attr.max_rd_atomic = cut(qp->nic->caps, attr.max_rd_atomic);
    qp->attr.timeout = attr.timeout;
    qp->attr.retry_cnt = attr.retry_cnt;
    qp->state = IBV_QPS_RTS;
    return 0;
  }
  static uint8_t cut(const NicCaps& caps, uint8_t depth) {
    return caps.takes_depth == 0 ? depth
                                 : static_cast<uint8_t>(std::min<int>(depth, caps.takes_depth));
  }

  const std::shared_ptr<Fabric::State> fabric_;
  const size_t host_;
};

}  // namespace

std::shared_ptr<const verbs::Verbs> make_verbs(std::shared_ptr<Fabric::State> state, size_t host) {
  return std::make_shared<FakeVerbs>(std::move(state), host);
}

}  // namespace wb::fake
