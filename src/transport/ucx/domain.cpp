#include "transport/ucx/domain.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <sstream>

#include "transport/registry.h"
#include "transport/ucx/connection.h"

namespace wb::ucx {
namespace {

// For answers to readers that are under way when a domain ends. Readers that do not take them are
// not waited for.
constexpr std::chrono::milliseconds kRest{200};

// Whether every transport of a UCX_TLS list reads remote memory without the peer's processor. An
// empty list is UCX's own choice, which may fall back to TCP.
bool only_one_sided(const std::string& tls) {
  constexpr std::array<std::string_view, 10> kOneSided = {
      "rc", "rc_v", "rc_x", "rc_verbs", "rc_mlx5", "dc", "dc_x", "dc_mlx5", "ib", "self"};
  std::istringstream list(tls);
  bool any = false;
  for (std::string name; std::getline(list, name, ',');) {
    if (std::find(kOneSided.begin(), kOneSided.end(), name) == kOneSided.end()) return false;
    any = true;
  }
  return any;
}

// What the caller or the environment names is taken as it is.
UcxOptions confined(const DomainOptions& options) {
  UcxOptions out = options.ucx;
  if (out.net_devices.empty() && std::getenv("UCX_NET_DEVICES") == nullptr &&
      loopback_host(options.host)) {
    out.net_devices = "lo";
  }
  return out;
}

}  // namespace

Result<std::shared_ptr<const UcxRegion>> DomainState::find(RegionId region) const {
  const std::lock_guard lock(mutex);
  return regions.find(region);
}

Result<std::unique_ptr<Domain>> UcxDomain::make(const DomainOptions& options) {
  if (options.ucx.window == 0) return Status(Code::kInvalidArgument, "ucx: a window of 0 reads");
  auto state = std::make_shared<DomainState>();
  state->options = confined(options);
  state->log = options.log;
  WB_ASSIGN_OR_RETURN(state->context, Context::make(state->options));
  WB_ASSIGN_OR_RETURN(auto worker, Worker::make(state->context));
  WB_ASSIGN_OR_RETURN(const int event_fd, worker->event_fd());
  const Digest incarnation = random_id();
  WB_ASSIGN_OR_RETURN(StampTable stamps, StampTable::make(incarnation));
  WB_ASSIGN_OR_RETURN(auto stamp_memory, Memory::map(state->context, stamps.memory()));
  WB_ASSIGN_OR_RETURN(std::string stamp_rkey, stamp_memory->pack());
  WB_ASSIGN_OR_RETURN(std::string worker_address, worker->address());
  std::unique_ptr<UcxDomain> domain(new UcxDomain(std::move(state), std::move(worker),
                                                  std::move(stamps), std::move(stamp_memory),
                                                  std::move(stamp_rkey), event_fd, incarnation));
  domain->address_ = encode(UcxAddress{incarnation, std::move(worker_address)});
  return std::unique_ptr<Domain>(std::move(domain));
}

UcxDomain::UcxDomain(std::shared_ptr<DomainState> state, std::shared_ptr<Worker> worker,
                     StampTable stamps, std::shared_ptr<const Memory> stamp_memory,
                     std::string stamp_rkey, int event_fd, const Digest& incarnation)
    : state_(std::move(state)),
      incarnation_(incarnation),
      one_sided_only_(only_one_sided(state_->options.tls)),
      stamps_(std::move(stamps)),
      stamp_memory_(std::move(stamp_memory)),
      stamp_rkey_(std::move(stamp_rkey)),
      worker_(std::move(worker)),
      event_fd_(event_fd) {}

UcxDomain::~UcxDomain() {
  {
    const std::lock_guard lock(worker_mutex_);
    worker_->come_to_rest(Deadline::after(kRest));
  }
  const std::lock_guard lock(state_->mutex);
  for (auto& [id, region] : state_->regions) {
    if (region->access == Access::kRemoteRead) stamps_.give_back(region->entry);
  }
  state_->regions.clear();
}

Result<RegionId> UcxDomain::register_region(std::shared_ptr<Allocation> memory, Access access) {
  WB_RETURN_IF_ERROR(check_registrable(memory.get(), access));
  auto region = std::make_shared<UcxRegion>();
  region->access = access;
  WB_ASSIGN_OR_RETURN(region->memory, Memory::map(state_->context, std::move(memory)));
  const std::lock_guard lock(state_->mutex);
  if (access == Access::kRemoteRead) {
    WB_ASSIGN_OR_RETURN(region->entry, stamps_.take());
  }
  return state_->regions.add(std::move(region));
}

Status UcxDomain::deregister_region(RegionId region) {
  std::shared_ptr<const UcxRegion> record;  // lets the memory go outside the lock
  const std::lock_guard lock(state_->mutex);
  WB_ASSIGN_OR_RETURN(record, state_->regions.remove(region));
  if (record->access == Access::kRemoteRead) stamps_.give_back(record->entry);
  return Status();
}

Result<std::string> UcxDomain::export_key(RegionId region) {
  WB_ASSIGN_OR_RETURN(const auto record, state_->find(region));
  WB_RETURN_IF_ERROR(check_exportable(region, record->access));
  const auto at = [](const Memory& memory, std::string rkey) {
    return PackedMemory{reinterpret_cast<uint64_t>(memory.allocation()->data()),
                        memory.allocation()->bytes(), std::move(rkey)};
  };
  WB_ASSIGN_OR_RETURN(std::string rkey, record->memory->pack());
  return encode(UcxKey{incarnation_, record->entry.slot, record->entry.stamp,
                       at(*record->memory, std::move(rkey)), at(*stamp_memory_, stamp_rkey_)});
}

Reach UcxDomain::reach(std::string_view peer_address) const {
  const auto peer = decode_address(peer_address);
  if (!peer.ok()) return {false, peer.status().message()};
  const std::string& tls = state_->options.tls;
  const std::string& devices = state_->options.net_devices;
  return {true, "UCX " + state_->context->library().version + " with " +
                    (tls.empty() ? "its own choice of transports" : "UCX_TLS=" + tls) +
                    (devices.empty() ? "" : " on UCX_NET_DEVICES=" + devices) +
                    "; which one it takes is known when connected"};
}

Result<std::unique_ptr<Connection>> UcxDomain::connect(std::string_view peer_address,
                                                       std::unique_ptr<Exchange> exchange,
                                                       Deadline deadline) {
  if (exchange == nullptr) return Status(Code::kInvalidArgument, "connecting without an exchange");
  if (deadline.expired()) return Status(Code::kDeadline, "connecting to a ucx peer");
  WB_ASSIGN_OR_RETURN(const UcxAddress peer, decode_address(peer_address));
  return UcxConnection::make(state_, peer, std::move(exchange));
}

Result<std::string> UcxDomain::handle_exchange(std::string_view payload) {
  if (!payload.empty()) {
    return Status(Code::kBadData, "ucx transport: a peer's request asks for nothing known");
  }
  const std::lock_guard lock(worker_mutex_);
  const Deadline enough = Deadline::after(std::chrono::milliseconds(1));
  while (!enough.expired()) worker_->progress();
  return std::string();
}

void UcxDomain::progress() {
  {
    const std::lock_guard lock(worker_mutex_);
    const Deadline enough = Deadline::after(std::chrono::milliseconds(1));
    while (worker_->progress() != 0 && !enough.expired()) {
    }
    const auto idle = worker_->arm();
    // Not armed (there is more to do, or UCX cannot tell): the caller calls again.
    if (!idle.ok() || !*idle) return;
  }
  pollfd event{event_fd_, POLLIN, 0};
  poll(&event, 1, 1);
}

}  // namespace wb::ucx
