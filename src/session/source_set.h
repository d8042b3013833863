// The sources that a receiver reads from: found, planned, proved and connected, and kept as long as
// the formation and the manifests stay the same.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/hash.h"
#include "base/status.h"
#include "control/membership.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "plan/fleet_cache.h"
#include "plan/plan.h"
#include "session/bound_memory.h"
#include "session/formation_watch.h"
#include "session/header.h"
#include "session/job_internal.h"
#include "session/pull_trace.h"
#include "session/receiver_roster.h"
#include "session/roster.h"
#include "session/source_link.h"
#include "session/target.h"

namespace wb {

// A proved plan over one set of sources.
struct ProvedPlan {
  uint64_t id = 0;           // never 0, never given twice
  std::vector<Digest> from;  // manifests of the sources, by rank, and layouts of other receivers
  size_t receivers = 1;      // that it was made for
  Plan plan;
  std::vector<InstallRun> installs;
};

// One source that the plan needs, with the state of the attempt that reads it.
struct Lane {
  SourceLink* link = nullptr;
  const ReadList* list = nullptr;
  HeaderExpectation expected;
  uint32_t slot = 0;
  HeaderWords first{};  // the header as it was before the data was asked for
  uint64_t seen = 0;    // bytes_done when polled last
  bool begun = false;   // some bytes have arrived
  bool checked = false;
};

// The receiver's part of the inputs; borrowed.
struct SourceSetInputs {
  const JobInternal* job = nullptr;
  const TensorTable* table = nullptr;
  const WorkerLayout* layout = nullptr;
  const BoundMemory* target = nullptr;
  std::string receiver;
  std::span<const RegisteredRegions> local;
  std::span<const MissingTransport> unusable;
  ReceiverRoster* fellows = nullptr;
  const FormationWatch* watch = nullptr;
};

class SourceSet {
 public:
  explicit SourceSet(SourceSetInputs inputs);

  // Why sources must not be used, by incarnation: they were lost in this pull.
  using Lost = std::map<Digest, Status>;

  // Lanes for everything that the receiver needs from the formation's members without `lost`. Ends
  // the step of discovery that the caller has begun, and makes those of planning and connecting.
  // Members that cannot be used are left out when the others hold their bytes. kNotCovered: all
  // members are there and it is not enough. kPeerLost: it might be enough with those missing.
  Status assemble(const Formation& formation, const Lost& lost, PullTrace* trace,
                  StepScope* discovery, Deadline deadline);

  // The lanes fit this formation and the receivers that are there, no member was left out, and
  // every connection stands.
  bool current(const Formation& formation);
  void drop(const Digest& incarnation);  // forgets the connection; the lanes are void
  void clear();                          // ends all connections

  std::span<Lane> lanes() { return lanes_; }
  // Of the lanes; null before the first.
  const std::shared_ptr<const ProvedPlan>& plan() const { return plan_; }
  const std::vector<MissingPeer>& missing() const { return missing_; }

 private:
  Result<std::shared_ptr<const ProvedPlan>> plan_over(const std::vector<SourcePeer>& peers,
                                                      Deadline deadline);
  Result<Plan> plan_with(std::span<const PlanWorker> sources,
                         std::span<const PlanWorker> receivers);
  Status drop_uncovered(std::span<const PlanWorker> sources, const PlanWorker& self,
                        std::vector<PlanWorker>* receivers);
  Status connect(const std::vector<SourcePeer>& peers, uint64_t generation, uint32_t* failed,
                 Deadline deadline);
  Status not_covered(const Status& why) const;

  const SourceSetInputs in_;
  const Digest mapping_;  // of the receiver's layout
  Roster roster_;
  std::vector<std::shared_ptr<const ProvedPlan>> plans_;  // the newest few
  uint64_t next_plan_ = 1;
  FleetCache cache_;  // what the next plan can take over from the last

  Formation formation_;  // that the lanes are for; without members: the lanes are void
  std::shared_ptr<const ProvedPlan> plan_;
  ReadList nothing_;  // what is read from a source that only tells the version
  std::map<Digest, std::unique_ptr<SourceLink>> links_;
  std::vector<Lane> lanes_;
  std::vector<MissingPeer> missing_;
};

}  // namespace wb
