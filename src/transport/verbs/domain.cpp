#include "transport/verbs/domain.h"

#include <algorithm>

#include "memory/page_nodes.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/library.h"
#include "transport/verbs/numa.h"

namespace wb::verbs {
namespace {

constexpr std::string_view kRoom = "transport";
// Regions up to this are headers, stamps and the like: ordering is worth more than bandwidth there.
constexpr uint64_t kStrictUpTo = 64u << 10;
// Ended connections that are remembered per source.
constexpr size_t kMostEnded = kMaxEnded;

}  // namespace

Result<std::shared_ptr<const VerbsRegion>> DomainState::find(RegionId region) const {
  const std::lock_guard lock(mutex);
  return regions.find(region);
}

void DomainState::add_ended(const Digest& source, const Digest& connection) {
  const std::lock_guard lock(mutex);
  auto& list = ended[source];
  if (list.size() < kMostEnded) list.push_back(connection);
}

std::vector<Digest> DomainState::take_ended(const Digest& source) {
  const std::lock_guard lock(mutex);
  const auto found = ended.find(source);
  if (found == ended.end()) return {};
  std::vector<Digest> out = std::move(found->second);
  ended.erase(found);
  return out;
}

Result<std::unique_ptr<Domain>> VerbsDomain::make(const DomainOptions& options) {
  WB_ASSIGN_OR_RETURN(auto library, open_library(options.verbs.library));
  return make_over(std::move(library), TransportKind::kVerbs, Digest{}, options);
}

Result<std::unique_ptr<Domain>> VerbsDomain::make_over(std::shared_ptr<const Verbs> verbs,
                                                       TransportKind kind, const Digest& network,
                                                       const DomainOptions& options) {
  WB_RETURN_IF_ERROR(check_verbs_options(options.verbs));
  const std::string origin = verbs->origin();
  WB_ASSIGN_OR_RETURN(Rails rails, open_rails(std::move(verbs), options.verbs, own_numa_node()));
  auto state = std::make_shared<DomainState>();
  state->rails = rails.rails;
  state->incarnation = random_id();
  state->network = network;
  state->options = options.verbs;
  state->log = options.log;
  WB_ASSIGN_OR_RETURN(StampTable stamps, StampTable::make(state->incarnation));
  WB_ASSIGN_OR_RETURN(
      auto stamp_memory,
      Registration::make(state->rails, stamps.memory(), Right::kRemoteRead, true, state->options));
  std::unique_ptr<VerbsDomain> domain(
      new VerbsDomain(kind, std::move(state), std::move(stamps), std::move(stamp_memory)));
  domain->report(rails, origin);
  Responders* const responders = domain->responders_.get();
  WB_ASSIGN_OR_RETURN(domain->watch_,
                      Watch::start(
                          rails.rails, options.log, [responders] { responders->look_after(); },
                          std::chrono::milliseconds(options.verbs.probe_ms)));
  return std::unique_ptr<Domain>(std::move(domain));
}

VerbsDomain::VerbsDomain(TransportKind kind, std::shared_ptr<DomainState> state, StampTable stamps,
                         std::shared_ptr<const Registration> stamp_memory)
    : kind_(kind),
      state_(std::move(state)),
      stamps_(std::move(stamps)),
      stamp_memory_(std::move(stamp_memory)),
      address_(make_address()),
      responders_(std::make_unique<Responders>(state_->rails, state_->options, state_->log)) {}

// No event and no probe any more, then nobody is answered, then every stamp falls, then the memory
// is let go.
VerbsDomain::~VerbsDomain() {
  watch_.reset();
  responders_.reset();
  const std::lock_guard lock(state_->mutex);
  for (auto& [id, region] : state_->regions) {
    if (region->access == Access::kRemoteRead) stamps_.give_back(region->entry);
  }
  state_->regions.clear();
}

void VerbsDomain::report(const Rails& rails, const std::string& origin) const {
  for (const auto& rail : rails.rails) {
    std::vector<LogField> fields = {{"rail", rail->name()}, {"verbs", origin}};
    for (const std::string& reason : rail->reasons()) fields.push_back({"chosen", reason});
    state_->log.write(LogLevel::kInfo, kRoom, "an RDMA port is used", std::move(fields));
  }
  for (const std::string& reason : rails.left_out) {
    state_->log.write(LogLevel::kWarn, kRoom, "an RDMA port is left out", {{"reason", reason}});
  }
}

std::string VerbsDomain::make_address() const {
  VerbsAddress address;
  address.incarnation = state_->incarnation;
  address.network = state_->network;
  address.stamp_table = stamp_memory_->address();
  for (size_t i = 0; i < state_->rails.size(); ++i) {
    const Rail& rail = *state_->rails[i];
    address.rails.push_back({rail.end(), rail.gbps(), stamp_memory_->rkey(i, 0)});
  }
  return encode(address);
}

// Said once for each region of weights; small ones hold headers.
void VerbsDomain::tell_if_far(const Allocation& memory) const {
  if (!state_->log.enabled(LogLevel::kWarn)) return;
  std::vector<int> nodes;
  for (const auto& rail : state_->rails) nodes.push_back(rail->numa_node());
  const auto pages = buffer_nodes(memory.data(), memory.bytes());
  if (!pages.ok()) return;  // a kernel that does not tell
  std::string far = far_from_nics(*pages, nodes);
  if (!far.empty()) state_->log.write(LogLevel::kWarn, kRoom, std::move(far));
}

Result<RegionId> VerbsDomain::register_region(std::shared_ptr<Allocation> memory, Access access) {
  WB_RETURN_IF_ERROR(check_registrable(memory.get(), access));
  const Right right = access == Access::kRemoteRead ? Right::kRemoteRead : Right::kLocalWrite;
  const bool strict = memory->bytes() <= kStrictUpTo;
  auto region = std::make_shared<VerbsRegion>();
  region->access = access;
  WB_ASSIGN_OR_RETURN(region->registration, Registration::make(state_->rails, std::move(memory),
                                                               right, strict, state_->options));
  if (!strict) tell_if_far(*region->registration->memory());
  const std::lock_guard lock(state_->mutex);
  if (access == Access::kRemoteRead) {
    WB_ASSIGN_OR_RETURN(region->entry, stamps_.take());
  }
  return state_->regions.add(std::move(region));
}

Status VerbsDomain::deregister_region(RegionId region) {
  std::shared_ptr<const VerbsRegion> record;  // deregisters outside the lock
  const std::lock_guard lock(state_->mutex);
  WB_ASSIGN_OR_RETURN(record, state_->regions.remove(region));
  if (record->access == Access::kRemoteRead) stamps_.give_back(record->entry);
  return Status();
}

Result<std::string> VerbsDomain::export_key(RegionId region) {
  WB_ASSIGN_OR_RETURN(const auto record, state_->find(region));
  WB_RETURN_IF_ERROR(check_exportable(region, record->access));
  const Registration& memory = *record->registration;
  VerbsKey key;
  key.incarnation = state_->incarnation;
  key.slot = record->entry.slot;
  key.stamp = record->entry.stamp;
  key.address = memory.address();
  key.bytes = memory.bytes();
  key.slice_bytes = memory.slice_bytes();
  key.rails = static_cast<uint32_t>(state_->rails.size());
  for (size_t rail = 0; rail < state_->rails.size(); ++rail) {
    for (size_t slice = 0; slice < memory.slices(); ++slice) {
      key.rkeys.push_back(memory.rkey(rail, slice));
    }
  }
  return encode(key);
}

Reach VerbsDomain::reach(std::string_view peer_address) const {
  const auto peer = decode_address(peer_address);
  if (!peer.ok()) return {false, peer.status().message()};
  if (peer->network != state_->network) {
    return {false, "its NICs and the ones here are not of the same network"};
  }
  std::vector<PathEnd> ours;
  std::vector<PathEnd> theirs;
  for (const auto& rail : state_->rails) ours.push_back(rail->end());
  for (const RailAddress& rail : peer->rails) theirs.push_back(rail.end);
  const auto pairs = pair_rails(ours, theirs);
  if (!pairs.ok()) return {false, pairs.status().message()};
  std::string reason = "RDMA READ over ";
  for (const RailPair& pair : *pairs) {
    reason += (&pair == &pairs->front() ? "" : "; ") + state_->rails[pair.reader]->name() + ": " +
              pair.reason;
  }
  return {true, std::move(reason)};
}

Result<std::unique_ptr<Connection>> VerbsDomain::connect(std::string_view peer_address,
                                                         std::unique_ptr<Exchange> exchange,
                                                         Deadline deadline) {
  if (exchange == nullptr) return Status(Code::kInvalidArgument, "connecting without an exchange");
  if (deadline.expired()) return Status(Code::kDeadline, "connecting to a verbs peer");
  WB_ASSIGN_OR_RETURN(VerbsAddress peer, decode_address(peer_address));
  if (peer.network != state_->network) {
    return Status(Code::kUnavailable, "the peer's NICs are not of the same network");
  }
  WB_ASSIGN_OR_RETURN(auto link,
                      Link::connect(state_, std::move(peer), std::move(exchange), deadline));
  return std::unique_ptr<Connection>(std::make_unique<VerbsConnection>(state_, std::move(link)));
}

Result<std::string> VerbsDomain::handle_exchange(std::string_view payload) {
  WB_ASSIGN_OR_RETURN(const ConnectRequest request, decode_request(payload));
  if (request.source != state_->incarnation) {
    return Status(Code::kMismatch,
                  "the reader means another life of this source: it must fetch "
                  "the manifest again");
  }
  WB_ASSIGN_OR_RETURN(const ConnectGrant grant, responders_->grant(request));
  return encode(grant);
}

}  // namespace wb::verbs
