#include "session/source_set.h"

#include <algorithm>
#include <set>

#include "layout/side.h"
#include "plan/fleet.h"
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
          peer.manifest->placement, peer.manifest->region_bytes};
}

// One side of the job as the planner of the whole job takes it. Borrows the workers.
struct PlannedSide {
  Side layouts;
  std::vector<FleetWorker> workers;

  explicit PlannedSide(std::span<const PlanWorker> side) {
    SideBuilder builder;
    for (const PlanWorker& worker : side) {
      builder.add(*worker.layout);
      workers.push_back({worker.name, worker.placement, worker.region_bytes, {}});
    }
    layouts = builder.take();
  }
};

// What receiver `name` reads when all receivers together use the sources as evenly as possible,
// each for itself. Every worker counts as one NIC of equal speed, on hosts that are named after
// their place in the lists: so both lists are sorted, by every receiver alike.
Result<Plan> plan_for(const std::string& name, const TensorTable& table,
                      std::span<const PlanWorker> sources, std::span<const PlanWorker> receivers) {
  PlannedSide from(sources);
  PlannedSide to(receivers);
  const Cluster cluster = plain_cluster(&from.workers, &to.workers, 1);
  WB_ASSIGN_OR_RETURN(const Fleet fleet,
                      Fleet::make(table, {&from.layouts, std::move(from.workers)},
                                  {&to.layouts, std::move(to.workers)}, cluster));
  FleetOptions options;
  options.policy = Policy::kDirect;
  WB_ASSIGN_OR_RETURN(const FleetPlan planned, plan_fleet(fleet, options));
  uint32_t own = 0;
  while (fleet.receivers()[own].name != name) ++own;
  WB_ASSIGN_OR_RETURN(const FleetPart part, make_part(fleet, planned, own));
  WB_ASSIGN_OR_RETURN(Plan plan, plan_of_part(fleet, part));
  for (ReadList& list : plan.lists) list.source = fleet.sources()[list.source].input;
  return plan;
}

}  // namespace

SourceSet::SourceSet(SourceSetInputs inputs)
    : in_(std::move(inputs)),
      roster_(in_.job->store(), in_.job->options().name, in_.job->options().token) {}

Result<std::shared_ptr<const ProvedPlan>> SourceSet::plan_over(
    const std::vector<SourcePeer>& peers) {
  if (peers.empty()) return Status(Code::kNotCovered, "no source is there");
  std::vector<Digest> from;
  for (const SourcePeer& peer : peers) from.push_back(peer.record.manifest);
  for (const FellowReceiver& fellow : fellows_) {
    Hasher one;
    one.add(fellow.name).add(fellow.manifest->mapping_digest.low);
    from.push_back(one.add(fellow.manifest->mapping_digest.high).digest());
  }
  for (const auto& plan : plans_)
    if (plan->from == from) return plan;

  const PlanWorker self{in_.receiver, in_.layout, in_.target->placement, in_.target->region_bytes};
  std::vector<PlanWorker> receivers{self};
  for (const FellowReceiver& fellow : fellows_) {
    const Manifest& manifest = *fellow.manifest;
    receivers.push_back({fellow.name, &manifest.layout, manifest.placement, manifest.region_bytes});
  }
  std::sort(receivers.begin(), receivers.end(),
            [](const PlanWorker& a, const PlanWorker& b) { return a.name < b.name; });
  std::vector<PlanWorker> sources;
  for (const SourcePeer& peer : peers) sources.push_back(as_source(peer));
  auto proved = std::make_shared<ProvedPlan>();
  proved->from = std::move(from);
  auto plan = plan_for(in_.receiver, *in_.table, sources, receivers);
  if (!plan.ok() && plan.status().code() == Code::kNotCovered && receivers.size() > 1) {
    // What a fellow needs may be held by nobody, which is that one's error: the fellows are for
    // balance only.
    receivers = {self};
    plan = plan_for(in_.receiver, *in_.table, sources, receivers);
  }
  WB_ASSIGN_OR_RETURN(proved->plan, std::move(plan));
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
  if (const uint64_t serial = in_.watch->receivers_serial(); serial != receivers_serial_) {
    fellows_ = in_.fellows->look_up(*in_.table, deadline);
    receivers_serial_ = serial;
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
      auto plan = plan_over(peers);
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
      receivers_serial_ != in_.watch->receivers_serial())
    return false;
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
