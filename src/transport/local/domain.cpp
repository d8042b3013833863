#include "transport/local/domain.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "transport/local/connection.h"
#include "transport/local/identity.h"

namespace wb::local {
namespace {

constexpr std::string_view kRoom = "transport";

}  // namespace

Result<std::shared_ptr<LocalRegionRecord>> DomainState::find(RegionId region) const {
  const std::lock_guard lock(mutex);
  return regions.find(region);
}

Reach reach_from(const ProcessAddress& self, const ProcessAddress& peer) {
  if (peer.boot_id != self.boot_id) return {false, "the peer is on another host (boot id)"};
  if (peer.pid_namespace != self.pid_namespace) {
    return {false,
            "the peer is on this host in another PID namespace: run both containers with "
            "one (docker: --pid), or use another transport"};
  }
  const auto pidfd = open_process(peer);
  if (!pidfd.ok()) {
    return {false, pidfd.status().message(), pidfd.status().code() == Code::kPeerLost};
  }
  const std::string where =
      "process " + std::to_string(peer.pid) + " is on this host in the same PID namespace";
  if (peer.net_namespace != self.net_namespace) {
    return {true, where +
                      "; its network namespace is another one, so shared memory cannot be "
                      "handed over and is read with process_vm_readv"};
  }
  return {true, where + "; shared memory is mapped, other memory read with process_vm_readv"};
}

Result<std::unique_ptr<Domain>> LocalDomain::make(const DomainOptions& options) {
  if (options.local.poll_bytes == 0) {
    return Status(Code::kInvalidArgument, "local transport: poll_bytes is 0");
  }
  auto state = std::make_shared<DomainState>();
  WB_ASSIGN_OR_RETURN(state->self, this_process());
  state->self.incarnation = random_id();
  state->options = options.local;
  state->log = options.log;
  WB_ASSIGN_OR_RETURN(StampTable stamps, StampTable::make(state->self.incarnation));
  state->self.stamp_table = reinterpret_cast<uint64_t>(stamps.memory()->data());
  return std::unique_ptr<Domain>(new LocalDomain(std::move(state), std::move(stamps)));
}

LocalDomain::~LocalDomain() {
  // Nobody gets a descriptor any more, then every stamp falls, then the memory is let go.
  server_.reset();
  const std::lock_guard lock(state_->mutex);
  for (auto& [id, region] : state_->regions) {
    if (region->access == Access::kRemoteRead) stamps_.give_back(region->entry);
    region->registered.store(false, std::memory_order_relaxed);
  }
  state_->regions.clear();
}

Result<RegionId> LocalDomain::register_region(std::shared_ptr<Allocation> memory, Access access) {
  WB_RETURN_IF_ERROR(check_registrable(memory.get(), access));
  auto region = std::make_shared<LocalRegionRecord>();
  region->memory = std::move(memory);
  region->access = access;
  const std::lock_guard lock(state_->mutex);
  if (access == Access::kRemoteRead) {
    if (region->memory->fd() >= 0 && server_ == nullptr) {
      WB_ASSIGN_OR_RETURN(server_, FdServer::start(stamps_.memory()));
    }
    WB_ASSIGN_OR_RETURN(region->entry, stamps_.take());
  }
  return state_->regions.add(std::move(region));
}

Status LocalDomain::deregister_region(RegionId region) {
  std::shared_ptr<LocalRegionRecord> record;  // lets the memory go outside the lock
  const std::lock_guard lock(state_->mutex);
  WB_ASSIGN_OR_RETURN(record, state_->regions.remove(region));
  record->registered.store(false, std::memory_order_relaxed);
  if (record->access == Access::kRemoteRead) stamps_.give_back(record->entry);
  return Status();
}

Result<std::string> LocalDomain::export_key(RegionId region) {
  WB_ASSIGN_OR_RETURN(const auto record, state_->find(region));
  WB_RETURN_IF_ERROR(check_exportable(region, record->access));
  return encode(RegionKey{state_->self.incarnation, record->entry.slot, record->entry.stamp,
                          reinterpret_cast<uint64_t>(record->memory->data()),
                          record->memory->bytes(), record->memory->fd() >= 0});
}

std::string LocalDomain::address() const { return encode(state_->self); }

Reach LocalDomain::reach(std::string_view peer_address) const {
  const auto peer = decode_address(peer_address);
  if (!peer.ok()) return {false, peer.status().message()};
  return reach_from(state_->self, *peer);
}

Result<std::unique_ptr<Connection>> LocalDomain::connect(std::string_view peer_address,
                                                         std::unique_ptr<Exchange> exchange,
                                                         Deadline deadline) {
  if (exchange == nullptr) return Status(Code::kInvalidArgument, "connecting without an exchange");
  if (deadline.expired()) return Status(Code::kDeadline, "connecting to a local peer");
  WB_ASSIGN_OR_RETURN(const ProcessAddress peer, decode_address(peer_address));
  const Reach reach = reach_from(state_->self, peer);
  if (!reach.reachable) return Status(Code::kUnavailable, reach.reason);
  WB_ASSIGN_OR_RETURN(UniqueFd pidfd, open_process(peer));
  return std::unique_ptr<Connection>(
      new LocalConnection(state_, peer, std::move(pidfd), std::move(exchange)));
}

Result<std::string> LocalDomain::handle_exchange(std::string_view payload) {
  WB_ASSIGN_OR_RETURN(const Request request, decode_request(payload));
  return request.ask == Ask::kMap ? answer_map(request) : answer_ptrace(request);
}

Result<std::string> LocalDomain::answer_map(const Request& request) {
  const std::lock_guard lock(state_->mutex);
  for (const auto& [id, region] : state_->regions) {
    if (region->access != Access::kRemoteRead || region->entry.slot != request.slot ||
        region->entry.stamp != request.stamp) {
      continue;
    }
    if (region->memory->fd() < 0) break;
    WB_ASSIGN_OR_RETURN(const MapGrant grant, server_->grant(region->memory, request.reader_pid));
    return encode(grant);
  }
  return Status(Code::kNotFound, "the source has no shared region by that key any more");
}

Result<std::string> LocalDomain::answer_ptrace(const Request& request) {
  PtraceGrant grant;
  grant.dumpable = prctl(PR_GET_DUMPABLE) == 1;
  grant.yama_scope = yama_scope();
  if (grant.yama_scope == 1) {
    const std::lock_guard lock(state_->mutex);
    grant.granted = static_cast<uint8_t>(allow_reader(request.reader_pid));
  }
  return encode(grant);
}

// Yama remembers one allowed process per traced one, or "any of the same user".
YamaGrant LocalDomain::allow_reader(uint32_t pid) {
  if (ptracer_any_) return YamaGrant::kAnyOfThisUser;
  const bool second = ptracer_ != 0 && ptracer_ != pid;
  const bool any = second && state_->options.yama_any_reader;
  const unsigned long who = any ? PR_SET_PTRACER_ANY : pid;
  if (prctl(PR_SET_PTRACER, who, 0, 0, 0) != 0) {
    state_->log.write(LogLevel::kWarn, kRoom, "PR_SET_PTRACER failed: readers cannot be let in",
                      {{"reader", std::to_string(pid)}, {"errno", std::to_string(errno)}});
    return YamaGrant::kRefused;
  }
  ptracer_ = pid;
  ptracer_any_ = any;
  state_->log.write(LogLevel::kInfo, kRoom,
                    any ? "PR_SET_PTRACER: every process of this user may read this one, since "
                          "Yama names only one and a second reader asked"
                        : "PR_SET_PTRACER: one authenticated reader may read this process",
                    {{"reader", std::to_string(pid)}});
  return any ? YamaGrant::kAnyOfThisUser : YamaGrant::kThisReader;
}

}  // namespace wb::local
