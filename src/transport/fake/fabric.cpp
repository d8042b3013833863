#include "transport/fake/fabric.h"

#include <arpa/inet.h>

#include <cstdlib>
#include <cstring>

#include "base/good_guest.h"
#include "transport/fake/objects.h"

namespace wb::fake {
namespace {

verbs::GidRow roce2(const std::string& ipv4, uint32_t index) {
  verbs::GidRow row;
  row.index = index;
  row.type = verbs::GidType::kRoce2;
  row.gid[10] = 0xff;
  row.gid[11] = 0xff;
  inet_pton(AF_INET, ipv4.c_str(), row.gid.data() + 12);
  return row;
}

verbs::GidRow link_local(uint32_t index, uint8_t last) {
  verbs::GidRow row;
  row.index = index;
  row.type = verbs::GidType::kRoce2;
  row.gid[0] = 0xfe;
  row.gid[1] = 0x80;
  row.gid[15] = last;
  return row;
}

}  // namespace

NicCaps connectx(int generation, const std::string& name, const std::string& ipv4) {
  NicCaps caps;
  caps.name = name;
  // EDR, HDR, NDR, XDR with four lanes; the last has a speed code of its own that old headers lack.
  caps.speed = generation <= 5 ? 32 : generation == 6 ? 64 : 128;
  caps.gids = {link_local(0, 1), roce2(ipv4, 3)};
  caps.gids.push_back(caps.gids.back());
  caps.gids.back().index = 2;
  caps.gids.back().type = verbs::GidType::kRoce1;
  return caps;
}

NicCaps soft_roce(const std::string& name, const std::string& ipv4) {
  NicCaps caps;
  caps.name = name;
  caps.gids = {link_local(0, 1), roce2(ipv4, 1)};
  caps.width = 1;
  caps.speed = 1;
  caps.mtu = IBV_MTU_1024;
  caps.vendor = 0xffffff;
  caps.read_depth = 128;
  caps.sge = 32;
  caps.queue = 1 << 20;
  caps.cqe = 32767;
  caps.message_bytes = 8u << 20;
  caps.keeps_completions = true;
  return caps;
}

Fabric::Fabric(const Script& script) : state_(std::make_shared<State>()) {
  state_->script = script;
  state_->id = random_id();
  state_->random.seed(script.seed);
  if (script.engine == Engine::kThread) {
    const SignalsBlocked blocked;
    state_->thread = std::thread([state = state_.get()] { state->run(); });
  }
}

Fabric::~Fabric() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->work.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

const Digest& Fabric::id() const { return state_->id; }

size_t Fabric::add_host(std::vector<NicCaps> nics) {
  const std::lock_guard lock(state_->mutex);
  auto host = std::make_unique<Host>();
  for (NicCaps& caps : nics) {
    auto nic = std::make_unique<Nic>();
    nic->caps = std::move(caps);
    nic->host = host.get();
    nic->fabric = state_.get();
    nic->device = {};
    nic->device.nic = nic.get();
    nic->device.node_type = IBV_NODE_CA;
    nic->device.transport_type = IBV_TRANSPORT_IB;
    std::strncpy(nic->device.name, nic->caps.name.c_str(), sizeof nic->device.name - 1);
    host->nics.push_back(std::move(nic));
  }
  state_->hosts.push_back(std::move(host));
  return state_->hosts.size() - 1;
}

std::shared_ptr<const verbs::Verbs> Fabric::verbs(size_t host) const {
  return make_verbs(state_, host);
}

Nic* Fabric::State::find(size_t host, const std::string& nic) {
  for (const auto& one : hosts.at(host)->nics) {
    if (one->caps.name == nic) return one.get();
  }
  std::abort();  // a test that names a NIC which it did not add
}

void Fabric::fail_read(size_t host, const std::string& nic, ibv_wc_status status, uint32_t vendor,
                       uint32_t after) {
  const std::lock_guard lock(state_->mutex);
  Nic* const found = state_->find(host, nic);
  found->fail = true;
  found->fail_after = after;
  found->fail_status = status;
  found->fail_vendor = vendor;
}

void Fabric::limit_posts(size_t host, const std::string& nic, uint32_t most, int error,
                         uint32_t calls) {
  const std::lock_guard lock(state_->mutex);
  Nic* const found = state_->find(host, nic);
  found->limit = most;
  found->limit_error = error;
  found->limited_calls = calls;
}

void Fabric::stop_posts(size_t host, const std::string& nic, uint32_t after, int error) {
  const std::lock_guard lock(state_->mutex);
  Nic* const found = state_->find(host, nic);
  found->stops = true;
  found->stop_after = after;
  found->limit_error = error;
}

void Fabric::set_link(size_t host, const std::string& nic, bool up) {
  const std::lock_guard lock(state_->mutex);
  Nic* const found = state_->find(host, nic);
  found->up = up;
  state_->raise(found, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

void Fabric::set_gids(size_t host, const std::string& nic, std::vector<verbs::GidRow> gids) {
  const std::lock_guard lock(state_->mutex);
  Nic* const found = state_->find(host, nic);
  found->caps.gids = std::move(gids);
  state_->raise(found, IBV_EVENT_GID_CHANGE);
}

void Fabric::remove(size_t host, const std::string& nic) {
  const std::lock_guard lock(state_->mutex);
  Nic* const found = state_->find(host, nic);
  found->removed = true;
  for (const auto& [number, qp] : found->qps) qp->queue.clear();
  state_->raise(found, IBV_EVENT_DEVICE_FATAL);
}

void Fabric::kill(size_t host) {
  const std::lock_guard lock(state_->mutex);
  for (const auto& nic : state_->hosts.at(host)->nics) {
    for (const auto& [number, qp] : nic->qps) {
      qp->queue.clear();
      qp->state = IBV_QPS_RESET;
    }
  }
}

void Fabric::raise(size_t host, const std::string& nic, ibv_event_type type) {
  const std::lock_guard lock(state_->mutex);
  state_->raise(state_->find(host, nic), type);
}

void Fabric::break_queue_pairs(size_t host, const std::string& nic) {
  const std::lock_guard lock(state_->mutex);
  for (const auto& [number, qp] : state_->find(host, nic)->qps) state_->to_error(qp);
}

void Fabric::hold(bool on) {
  const std::lock_guard lock(state_->mutex);
  state_->held = on;
  state_->work.notify_all();
}

void Fabric::refuse_regions(size_t host, const std::string& nic, int error) {
  const std::lock_guard lock(state_->mutex);
  state_->find(host, nic)->region_error = error;
}

void Fabric::keep_queue_pairs(size_t host, const std::string& nic, int error) {
  const std::lock_guard lock(state_->mutex);
  state_->find(host, nic)->destroy_error = error;
}

void Fabric::reuse_keys(size_t host, const std::string& nic) {
  const std::lock_guard lock(state_->mutex);
  --state_->find(host, nic)->next_key;
}

uint64_t Fabric::overruns() const {
  const std::lock_guard lock(state_->mutex);
  return state_->overruns;
}

Live Fabric::live() const {
  const std::lock_guard lock(state_->mutex);
  return state_->live;
}

uint64_t Fabric::reads() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reads;
}

uint64_t Fabric::bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bytes;
}

}  // namespace wb::fake
