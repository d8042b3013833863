#include "plan/plan.h"

#include <algorithm>
#include <map>

#include "base/cancel.h"
#include "layout/side.h"
#include "plan/fleet.h"

namespace wb {
namespace {

// One side of a job as the planner of the whole job takes it. Borrows the workers.
struct PlannedSide {
  Side layouts;
  std::vector<FleetWorker> workers;
};

Result<PlannedSide> side_of(std::span<const PlanWorker> workers) {
  PlannedSide side;
  SideBuilder builder;
  std::map<Digest, SideMember> known;
  for (const PlanWorker& worker : workers) {
    WB_RETURN_IF_ERROR(CancelScope::stop("planning"));
    const auto same = worker.mapping == Digest{} ? known.end() : known.find(worker.mapping);
    if (same != known.end()) {
      builder.repeat(same->second);
    } else {
      known[worker.mapping] = builder.add(*worker.layout);
    }
    side.workers.push_back({worker.name, worker.placement, worker.region_bytes, {}});
  }
  side.layouts = builder.take();
  return side;
}

}  // namespace

Result<Plan> make_plan(const TensorTable& table, std::span<const PlanWorker> sources,
                       std::span<const PlanWorker> receivers, uint32_t own, FleetCache* cache) {
  if (own >= receivers.size()) {
    return Status(Code::kInvalidArgument,
                  "receiver " + std::to_string(own) + " of " + std::to_string(receivers.size()));
  }
  WB_ASSIGN_OR_RETURN(PlannedSide from, side_of(sources));
  WB_ASSIGN_OR_RETURN(PlannedSide to, side_of(receivers));
  const Cluster cluster = plain_cluster(&from.workers, &to.workers, 1);
  WB_ASSIGN_OR_RETURN(const Fleet fleet,
                      Fleet::make(table, {&from.layouts, std::move(from.workers)},
                                  {&to.layouts, std::move(to.workers)}, cluster));
  FleetOptions options;
  options.policy = Policy::kDirect;
  WB_ASSIGN_OR_RETURN(const FleetPlan planned, plan_fleet(fleet, options, cache));
  WB_RETURN_IF_ERROR(CancelScope::stop("planning"));
  const auto self = std::find_if(fleet.receivers().begin(), fleet.receivers().end(),
                                 [own](const Fleet::Worker& w) { return w.input == own; });
  const auto place = static_cast<uint32_t>(self - fleet.receivers().begin());
  WB_ASSIGN_OR_RETURN(const FleetPart part, make_part(fleet, planned, place, cache));
  WB_ASSIGN_OR_RETURN(Plan plan, plan_of_part(fleet, part));
  for (ReadList& list : plan.lists) list.source = fleet.sources()[list.source].input;
  std::sort(plan.lists.begin(), plan.lists.end(),
            [](const ReadList& a, const ReadList& b) { return a.source < b.source; });
  return plan;
}

}  // namespace wb
