#include "transport/verbs/responders.h"

#include <algorithm>
#include <set>
#include <utility>

namespace wb::verbs {
namespace {

constexpr std::string_view kRoom = "transport";
// Probes in flight. A completion of a queue pair that is destroyed meanwhile may stay in the
// completion queue until the next round, so that holds twice as many.
constexpr size_t kProbes = 128;
constexpr uint32_t kCompletions = 2 * kProbes;

}  // namespace

Status Responders::make_completions(size_t rail) {
  completions_.resize(rails_.size());
  if (completions_[rail] != nullptr) return Status();
  WB_ASSIGN_OR_RETURN(completions_[rail], CompletionQueue::make(rails_[rail], kCompletions, false));
  return Status();
}

Result<Responders::Group> Responders::make_group(const ConnectRequest::Group& wanted,
                                                 ConnectGrant::Group* granted) {
  if (wanted.source_rail >= rails_.size()) {
    return Status(Code::kBadData, "verbs transport: a reader asks for rail " +
                                      std::to_string(wanted.source_rail) + " of " +
                                      std::to_string(rails_.size()));
  }
  const auto& rail = rails_[wanted.source_rail];
  if (wanted.reader.layer != rail->end().layer) {
    return Status(Code::kBadData, "verbs transport: a reader on another kind of network");
  }
  WB_RETURN_IF_ERROR(make_completions(wanted.source_rail));
  Group group;
  group.rail = wanted.source_rail;
  granted->mtu = std::min(wanted.reader.mtu, rail->end().mtu);
  for (const QueuePairOffer& offer : wanted.offers) {
    // One entry of its own: for probes.
    WB_ASSIGN_OR_RETURN(auto pair, QueuePair::make(rail, completions_[group.rail]->get(), {1, 1}));
    const uint8_t depth = std::min(offer.depth, rail->responder_depth());
    WB_RETURN_IF_ERROR(
        pair->connect({wanted.reader, offer.number, offer.psn, granted->mtu, depth, 1}, options_));
    granted->grants.push_back({pair->number(), pair->psn(), std::min(depth, pair->asks())});
    group.pairs.push_back(std::move(pair));
  }
  return group;
}

Result<ConnectGrant> Responders::grant(const ConnectRequest& request) {
  const std::lock_guard lock(mutex_);
  for (const Digest& ended : request.ended) end(ended);
  if (readers_.size() >= kMostReaders) {
    return Status(Code::kNoMemory, "this source has " + std::to_string(kMostReaders) +
                                       " connections of readers already");
  }
  Reader reader;
  ConnectGrant out;
  for (const ConnectRequest::Group& wanted : request.groups) {
    ConnectGrant::Group granted;
    WB_ASSIGN_OR_RETURN(Group group, make_group(wanted, &granted));
    reader.groups.push_back(std::move(group));
    out.groups.push_back(std::move(granted));
  }
  out.connection = random_id();
  readers_.emplace(out.connection, std::move(reader));
  return out;
}

void Responders::end(const Digest& connection) {
  const auto found = readers_.find(connection);
  if (found == readers_.end()) return;
  for (const Group& group : found->second.groups) probes_.erase(group.probe);
  readers_.erase(found);
}

size_t Responders::readers() const {
  const std::lock_guard lock(mutex_);
  return readers_.size();
}

void Responders::take_answers() {
  ibv_wc taken[16];
  for (const auto& completions : completions_) {
    if (completions == nullptr) continue;
    for (int got = 0; (got = completions->poll(taken, 16)) > 0;) {
      for (int i = 0; i < got; ++i) {
        const auto found = probes_.find(taken[i].wr_id);
        if (found == probes_.end()) continue;
        Group& group = readers_.at(found->second.connection).groups[found->second.group];
        group.probe = 0;
        group.lost = taken[i].status != IBV_WC_SUCCESS;
        probes_.erase(found);
      }
    }
  }
}

void Responders::send_probe(const Digest& connection, Reader* reader, size_t index) {
  Group& group = reader->groups[index];
  if (group.probe != 0 || group.lost) return;
  ibv_send_wr request{};
  request.wr_id = next_probe_++;
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  if (ibv_post_send(group.pairs.back()->get(), &request, &refused) != 0) {
    group.lost = true;
    return;
  }
  group.probe = request.wr_id;
  probes_.emplace(request.wr_id, Probe{connection, index});
}

void Responders::look_after() {
  const std::lock_guard lock(mutex_);
  take_answers();
  std::vector<Digest> gone;
  for (const auto& [connection, reader] : readers_) {
    // While one of its paths is alive the reader is.
    if (std::all_of(reader.groups.begin(), reader.groups.end(),
                    [](const Group& group) { return group.lost; })) {
      gone.push_back(connection);
    }
  }
  for (const Digest& connection : gone) {
    end(connection);
    log_.write(LogLevel::kInfo, kRoom, "a reader that went away is forgotten",
               {{"connection", connection.hex()}});
  }
  auto at = readers_.upper_bound(after_);
  for (size_t looked = 0; looked < readers_.size() && probes_.size() < kProbes; ++looked) {
    if (at == readers_.end()) at = readers_.begin();
    const bool fresh = std::exchange(at->second.fresh, false);
    for (size_t i = 0; !fresh && i < at->second.groups.size() && probes_.size() < kProbes; ++i) {
      send_probe(at->first, &at->second, i);
    }
    after_ = at->first;
    ++at;
  }
}

}  // namespace wb::verbs
