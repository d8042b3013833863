// A job that is only planned: a model, two layouts and a cluster, without memory or processes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "layout/builtin_models.h"
#include "layout/side.h"
#include "layout/spec.h"
#include "plan/fabric.h"
#include "plan/fleet.h"

namespace CLI {
class App;
}

namespace wb::cli {

struct PlanJobOptions {
  std::string model;
  std::string trainer;
  std::string rollout;
  std::string policy = "auto";
  std::string costs = "verbs-cuda";
  std::string cluster;  // path; empty: hosts of 8 workers with a 400 Gb/s NIC each
};

// --model, --trainer, --rollout, --policy, --costs, --cluster.
void add_plan_job_options(CLI::App& command, PlanJobOptions* options);

// Larger worlds are refused: a plan of them is nothing that anybody reads.
inline constexpr uint32_t kMostPlanned = 16384;  // workers of a side

class PlanJob {
 public:
  // Errors name the option, tensor or member at fault. kInvalidArgument for worlds above
  // kMostPlanned.
  static Result<std::unique_ptr<PlanJob>> make(const PlanJobOptions& options);

  const PlanJobOptions& options() const { return options_; }
  const Model& model() const { return model_; }
  const Spec& trainer() const { return trainer_; }
  const Spec& rollout() const { return rollout_; }
  const Fleet& fleet() const { return *fleet_; }
  const Fabric& fabric() const { return fabric_; }
  const FleetPlan& plan() const { return plan_; }
  // The cluster with the seats of the fleet's workers, in its order.
  const Cluster& cluster() const { return fleet_->cluster(); }

 private:
  PlanJob() = default;
  Status prepare(const PlanJobOptions& options);

  PlanJobOptions options_;
  Model model_;
  Spec trainer_;
  Spec rollout_;
  Side sources_, receivers_;
  std::vector<PackedBuffers> packed_sources_, packed_receivers_;  // by family
  Fabric fabric_;
  std::optional<Fleet> fleet_;
  FleetPlan plan_;
};

}  // namespace wb::cli
