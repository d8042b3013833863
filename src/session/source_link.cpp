#include "session/source_link.h"

#include <algorithm>
#include <chrono>

#include "session/exchange.h"
#include "transport/registry.h"

namespace wb {
namespace {

// A source that hangs without dying must leave time to read from the others.
constexpr std::chrono::seconds kConnectWait{10};
constexpr std::chrono::seconds kHeaderWait{5};

const ManifestTransport* served_by(const Manifest& manifest, TransportKind kind) {
  for (const ManifestTransport& transport : manifest.transports)
    if (transport.kind == static_cast<uint8_t>(kind)) return &transport;
  return nullptr;
}

const RegisteredRegions* usable(std::span<const RegisteredRegions> local, TransportKind kind) {
  for (const RegisteredRegions& regions : local)
    if (regions.domain().kind() == kind) return &regions;
  return nullptr;
}

Reach reach_of(const Domain& domain, const SourcePeer& peer,
               std::span<const RegisteredRegions> local,
               std::span<const MissingTransport> unusable_here) {
  if (usable(local, domain.kind()) == nullptr) {
    for (const MissingTransport& one : unusable_here)
      if (one.kind == domain.kind()) return {false, one.reason};
    return {false, "this receiver's memory is not registered with it"};
  }
  const ManifestTransport* const served = served_by(*peer.manifest, domain.kind());
  if (served == nullptr) return {false, peer.record.worker + " does not serve it"};
  return domain.reach(served->address);
}

// The system forbids this way for good, another one may be open.
bool forbidden(Code code) { return code == Code::kPermission || code == Code::kUnsupported; }

}  // namespace

Result<std::unique_ptr<SourceLink>> SourceLink::open(
    const JobInternal& job, const SourcePeer& peer, std::span<const RegisteredRegions> local,
    std::span<const MissingTransport> unusable_here, Deadline deadline) {
  std::vector<Candidate> candidates;
  for (const auto& domain : job.domains())
    candidates.push_back({domain->kind(), reach_of(*domain, peer, local, unusable_here)});
  while (true) {
    const Choice choice = choose_transport(candidates);
    if (!choice.kind.has_value()) {
      const bool ended = std::any_of(candidates.begin(), candidates.end(),
                                     [](const Candidate& one) { return one.reach.ended; });
      return Status(ended ? Code::kPeerLost : Code::kUnsupported,
                    "no allowed transport reaches " + peer.record.worker + ": " + choice.reason)
          .with_peer(peer.record.worker);
    }
    const RegisteredRegions* const regions = usable(local, *choice.kind);
    const ManifestTransport* const served = served_by(*peer.manifest, *choice.kind);
    Domain& domain = regions->domain();
    std::unique_ptr<SourceLink> link(new SourceLink(peer));
    link->kind_ = *choice.kind;
    link->reason_ = choice.reason;
    link->local_ = regions->ids();
    auto connection = domain.connect(
        served->address,
        std::make_unique<PeerExchange>(peer.record.endpoint, job.options().token, *choice.kind),
        deadline.capped(kConnectWait));
    Status status = connection.status();
    if (status.ok()) {
      link->connection_ = std::move(connection).value();
      status = link->import_regions(*served, deadline.capped(kConnectWait));
    }
    if (status.ok()) return link;
    if (!forbidden(status.code())) {
      return std::move(status)
          .prefixed(std::string(transport_name(*choice.kind)) + " to " + peer.record.worker + ": ")
          .with_peer(peer.record.worker);
    }
    job.options().log.write(LogLevel::kWarn, "session",
                            "a transport that reaches the source cannot read it",
                            {{"source", peer.record.worker},
                             {"transport", std::string(transport_name(*choice.kind))},
                             {"error", status.to_string()}});
    for (Candidate& candidate : candidates)
      if (candidate.kind == *choice.kind) candidate.reach = {false, status.to_string()};
  }
}

Status SourceLink::import_regions(const ManifestTransport& served, Deadline deadline) {
  const Manifest& manifest = *peer_.manifest;
  const size_t data_regions = manifest.slots * manifest.region_bytes.size();
  if (manifest.slots == 0 || served.keys.size() != data_regions + 1) {
    return Status(Code::kBadData, "its manifest has " + std::to_string(served.keys.size()) +
                                      " keys for " + std::to_string(data_regions) +
                                      " regions and the headers");
  }
  for (size_t i = 0; i < data_regions; ++i) {
    WB_ASSIGN_OR_RETURN(const RemoteRegion region,
                        connection_->import_region(served.keys[i], deadline));
    regions_.push_back(region);
  }
  WB_ASSIGN_OR_RETURN(headers_, connection_->import_region(served.keys.back(), deadline));
  words_.assign(manifest.slots * kHeaderWords, 0);
  return Status();
}

Status SourceLink::bind(const ReadList& list, uint64_t plan, Deadline deadline) {
  if (bound_plan_ == plan) return Status();
  posted_ = nullptr;
  jobs_.clear();
  bound_plan_ = 0;
  if (!list.runs.empty()) {
    const size_t per_slot = peer_.manifest->region_bytes.size();
    for (uint32_t slot = 0; slot < peer_.manifest->slots; ++slot) {
      const std::span<const RemoteRegion> remote =
          std::span(regions_).subspan(slot * per_slot, per_slot);
      WB_ASSIGN_OR_RETURN(auto job, connection_->prepare(list, remote, local_));
      WB_RETURN_IF_ERROR(connection_->warm(*job, deadline));
      jobs_.push_back(std::move(job));
    }
  }
  bound_plan_ = plan;
  return Status();
}

Status SourceLink::read_directory(Deadline deadline) {
  return connection_->read_words(headers_, 0, words_, deadline.capped(kHeaderWait));
}

Status SourceLink::read_header(uint32_t slot, HeaderWords* header, Deadline deadline) {
  return connection_->read_words(headers_, slot * uint64_t{kHeaderBytes}, *header,
                                 deadline.capped(kHeaderWait));
}

Status SourceLink::post(uint32_t slot) {
  posted_ = jobs_.empty() ? nullptr : jobs_[slot].get();
  if (posted_ != nullptr) WB_RETURN_IF_ERROR(connection_->post(*posted_));
  active_ = true;
  return Status();
}

JobState SourceLink::poll() {
  const JobState state = posted_ == nullptr ? JobState::kDone : connection_->poll(*posted_);
  if (state == JobState::kDone) active_ = false;  // of one that failed, abort() knows the state
  return state;
}

uint64_t SourceLink::bytes_done() const { return posted_ == nullptr ? 0 : posted_->bytes_done(); }

Status SourceLink::failure() const {
  if (posted_ != nullptr && !posted_->status().ok()) return posted_->status();
  return Status(Code::kPeerLost, "its reads failed");
}

Status SourceLink::abort(Deadline deadline) {
  if (!active_) return Status();
  if (posted_ != nullptr) WB_RETURN_IF_ERROR(connection_->abort(*posted_, deadline));
  active_ = false;
  return Status();
}

}  // namespace wb
