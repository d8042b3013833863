#include "session/source_set.h"

#include <algorithm>
#include <set>

#include "base/cancel.h"
#include "plan/proof.h"

namespace wb {
namespace {

constexpr size_t kPlansKept = 4;  // the whole set, and what was left after losses

// Another try cannot change it, and the caller should read the reason itself.
bool final_reason(Code code) {
  return code == Code::kUnsupported || code == Code::kPermission ||
         code == Code::kInvalidArgument || code == Code::kNoMemory;
}

PlanWorker as_source(const SourcePeer& peer) {
  return {"trainer-" + std::to_string(peer.record.rank), &peer.manifest->layout,
          peer.manifest->placement, peer.manifest->region_bytes, peer.manifest->mapping_digest};
}

}  // namespace

SourceSet::SourceSet(SourceSetInputs inputs)
    : in_(std::move(inputs)),
      mapping_(layout_digest(*in_.table, *in_.layout)),
      roster_(in_.job->store(), in_.job->options().name, in_.job->options().token) {}

// The fellows whose needs are not all held by the sources are taken out: that is their own pulls'
// error, and for this one they count only for balance. An error where `self` is one of them.
Status SourceSet::drop_uncovered(std::span<const PlanWorker> sources, const PlanWorker& self,
                                 std::vector<PlanWorker>* receivers) {
  const auto alone = [&](const PlanWorker& one) {
    return make_plan(*in_.table, sources, {&one, 1}, 0, &cache_).status();
  };
  WB_RETURN_IF_ERROR(alone(self));
  std::map<Digest, bool> covered{{self.mapping, true}};
  for (size_t r = 0; r < receivers->size();) {
    const PlanWorker& fellow = (*receivers)[r];
    const auto [it, is_new] = covered.try_emplace(fellow.mapping, true);
    if (is_new) {
      const Status status = alone(fellow);
      if (!status.ok() && status.code() != Code::kNotCovered) return status;
      it->second = status.ok();
    }
    if (it->second) {
      ++r;
      continue;
    }
    in_.job->options().log.write(LogLevel::kWarn, "session",
                                 "the plan leaves out a receiver that no plan can serve",
                                 {{"receiver", in_.receiver}, {"other", fellow.name}});
    receivers->erase(receivers->begin() + static_cast<ptrdiff_t>(r));
  }
  return Status();
}

Result<Plan> SourceSet::plan_with(std::span<const PlanWorker> sources,
                                  std::span<const PlanWorker> receivers) {
  const auto self = std::find_if(receivers.begin(), receivers.end(), [&](const PlanWorker& worker) {
    return worker.name == in_.receiver;
  });
  return make_plan(*in_.table, sources, receivers, static_cast<uint32_t>(self - receivers.begin()),
                   &cache_);
}

Result<std::shared_ptr<const ProvedPlan>> SourceSet::plan_over(const std::vector<SourcePeer>& peers,
                                                               Deadline deadline) {
  if (peers.empty()) return Status(Code::kNotCovered, "no source is there");
  const std::vector<FellowReceiver>& fellows = in_.fellows->fellows();
  std::vector<Digest> from;
  for (const SourcePeer& peer : peers) from.push_back(peer.record.manifest);
  for (const FellowReceiver& fellow : fellows) {
    Hasher one;
    one.add(fellow.name).add(fellow.digest.low).add(fellow.digest.high);
    from.push_back(one.digest());
  }
  for (const auto& plan : plans_)
    if (plan->from == from) return plan;

  const CancelScope scope(deadline);
  const PlanWorker self{in_.receiver, in_.layout, in_.target->placement, in_.target->region_bytes,
                        mapping_};
  std::vector<PlanWorker> receivers{self};
  for (const FellowReceiver& fellow : fellows) {
    const Manifest& manifest = *fellow.manifest;
    receivers.push_back({fellow.name, &manifest.layout, manifest.placement, manifest.region_bytes,
                         manifest.mapping_digest});
  }
  std::sort(receivers.begin(), receivers.end(),
            [](const PlanWorker& a, const PlanWorker& b) { return a.name < b.name; });
  std::vector<PlanWorker> sources;
  for (const SourcePeer& peer : peers) sources.push_back(as_source(peer));
  auto plan = plan_with(sources, receivers);
  if (!plan.ok() && plan.status().code() == Code::kNotCovered && receivers.size() > 1) {
    WB_RETURN_IF_ERROR(drop_uncovered(sources, self, &receivers));
    plan = plan_with(sources, receivers);
  }
  auto proved = std::make_shared<ProvedPlan>();
  proved->from = std::move(from);
  WB_ASSIGN_OR_RETURN(proved->plan, std::move(plan));
  cache_.forget_unused();
  proved->receivers = receivers.size();
  WB_RETURN_IF_ERROR(prove_plan(*in_.table, self, sources, proved->plan));
  WB_ASSIGN_OR_RETURN(proved->installs, install_runs(*in_.layout, *in_.target, proved->plan));
  proved->id = next_plan_++;
  if (plans_.size() == kPlansKept) plans_.erase(plans_.begin());
  plans_.push_back(proved);
  return std::shared_ptr<const ProvedPlan>(std::move(proved));
}

Status SourceSet::connect(const std::vector<SourcePeer>& peers, uint64_t generation,
                          uint32_t* failed, Deadline deadline) {
  lanes_.clear();
  const auto add = [&](uint32_t source, const ReadList& list) -> Status {
    *failed = source;
    const SourcePeer& peer = peers[source];
    auto& link = links_[peer.record.incarnation];
    if (link != nullptr && !link->alive().ok()) link.reset();
    if (link == nullptr) {
      WB_ASSIGN_OR_RETURN(link,
                          SourceLink::open(*in_.job, peer, in_.local, in_.unusable, deadline));
    }
    WB_RETURN_IF_ERROR(link->bind(list, plan_->id, deadline));
    Lane lane;
    lane.link = link.get();
    lane.list = &list;
    lane.expected = {generation, peer.manifest->mapping_digest, peer.record.incarnation};
    lanes_.push_back(lane);
    return Status();
  };
  for (const ReadList& list : plan_->plan.lists) WB_RETURN_IF_ERROR(add(list.source, list));
  // A receiver that needs no byte still pulls a version: the first source tells which.
  if (lanes_.empty() && !peers.empty()) WB_RETURN_IF_ERROR(add(0, nothing_));
  return Status();
}

Status SourceSet::not_covered(const Status& why) const {
  if (missing_.empty()) return why;
  const MissingPeer& first = missing_.front();
  std::string sentence = first.reason.message();
  if (missing_.size() > 1)
    sentence += " (and " + std::to_string(missing_.size() - 1) + " more sources)";
  sentence += "; the others do not hold all bytes: " + why.message();
  const Code code = final_reason(first.reason.code()) ? first.reason.code() : Code::kPeerLost;
  return Status(code, std::move(sentence))
      .with_peer("trainer-" + std::to_string(first.rank))
      .with_tensor(why.facts().tensor)
      .with_errno(first.reason.facts().sys_errno)
      .with_vendor(first.reason.facts().vendor);
}

Status SourceSet::assemble(const Formation& formation, const Lost& lost, PullTrace* trace,
                           StepScope* discovery, Deadline deadline) {
  formation_ = Formation();
  lanes_.clear();
  WB_ASSIGN_OR_RETURN(RosterResult roster, roster_.look_up(formation, *in_.table, deadline));
  if (const uint64_t serial = in_.watch->receivers_serial(); in_.fellows->stale(serial)) {
    in_.fellows->look_up(serial, *in_.table, deadline);
  }
  discovery->end();

  const std::set<Digest> members(formation.members.begin(), formation.members.end());
  std::erase_if(links_, [&](const auto& link) { return !members.contains(link.first); });
  missing_ = std::move(roster.missing);
  std::vector<SourcePeer> peers;
  for (SourcePeer& peer : roster.peers) {
    const auto it = lost.find(peer.record.incarnation);
    if (it == lost.end()) {
      peers.push_back(std::move(peer));
    } else {
      missing_.push_back({peer.record.rank, peer.record.incarnation, it->second});
    }
  }
  while (true) {
    {
      const StepScope step(trace, PullStep::kPlan);
      auto plan = plan_over(peers, deadline);
      if (!plan.ok()) {
        if (plan.status().code() != Code::kNotCovered) return plan.status();
        return not_covered(plan.status());
      }
      plan_ = std::move(plan).value();
    }
    const StepScope step(trace, PullStep::kConnect);
    uint32_t failed = 0;
    const Status connected = connect(peers, formation.generation, &failed, deadline);
    if (connected.ok()) break;
    links_.erase(peers[failed].record.incarnation);
    missing_.push_back({peers[failed].record.rank, peers[failed].record.incarnation, connected});
    peers.erase(peers.begin() + failed);
  }
  if (lanes_.empty())
    return not_covered(Status(Code::kNotCovered, "no source is left to tell the version"));
  formation_ = formation;
  return Status();
}

bool SourceSet::current(const Formation& formation) {
  if (!formation_.same_set(formation) || !missing_.empty() ||
      in_.fellows->stale(in_.watch->receivers_serial())) {
    return false;
  }
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& lane) { return lane.link->alive().ok(); });
}

void SourceSet::drop(const Digest& incarnation) {
  lanes_.clear();
  links_.erase(incarnation);
  formation_ = Formation();
}

void SourceSet::clear() {
  lanes_.clear();
  links_.clear();
  formation_ = Formation();
}

}  // namespace wb
