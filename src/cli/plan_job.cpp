#include "cli/plan_job.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "cli/cluster_file.h"
#include "layout/open_model.h"
#include "layout/rules.h"

namespace wb::cli {
namespace {

Result<Policy> parse_policy(const std::string& name) {
  std::string known;
  for (const Policy policy : {Policy::kDirect, Policy::kHost, Policy::kFanout, Policy::kAuto}) {
    if (policy_name(policy) == name) return policy;
    known += (known.empty() ? "" : ", ") + std::string(policy_name(policy));
  }
  return Status(Code::kInvalidArgument, "--policy is one of " + known + ", not \"" + name + "\"");
}

Result<Spec> parse_side(const char* option, const std::string& text) {
  auto spec = parse_spec(text);
  if (!spec.ok()) return spec.status().prefixed(std::string(option) + ": ");
  if (spec->world() > kMostPlanned) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} {} has {} workers; at most {} a side are planned", option, text,
                              spec->world(), kMostPlanned));
  }
  return spec;
}

std::vector<PackedBuffers> pack(const Side& side) {
  std::vector<PackedBuffers> packed;
  for (const LayoutFamily& family : side.families) packed.push_back(pack_buffers(family.base));
  return packed;
}

FleetSide fleet_side(const Side& side, const std::vector<PackedBuffers>& packed, const char* name) {
  FleetSide out{.layouts = &side, .workers = {}};
  for (uint32_t w = 0; w < side.size(); ++w) {
    const PackedBuffers& buffers = packed[side.members[w].family];
    out.workers.push_back({.name = fmt::format("{}-{}", name, w),
                           .placement = buffers.placement,
                           .region_bytes = buffers.region_bytes,
                           .seat = {}});
  }
  return out;
}

// The fleet sorts the hosts; the fabric follows.
void reorder_fabric(const Cluster& from, const Cluster& to, Fabric* fabric) {
  std::map<std::string, uint32_t> leaf;
  for (size_t h = 0; h < from.hosts.size(); ++h) {
    leaf[from.hosts[h].name] = fabric->switch_of_host[h];
  }
  for (size_t h = 0; h < to.hosts.size(); ++h) {
    fabric->switch_of_host[h] = leaf.at(to.hosts[h].name);
  }
}

}  // namespace

void add_plan_job_options(CLI::App& command, PlanJobOptions* options) {
  command
      .add_option("--model", options->model,
                  "Checkpoint folder, tensor table file (.json), or a built-in model, e.g. "
                  "deepseek-v3")
      ->required();
  command.add_option("--trainer", options->trainer, "SPEC of the trainers")->required();
  command.add_option("--rollout", options->rollout, "SPEC of the receivers")->required();
  command
      .add_option("--policy", options->policy,
                  "How receivers share: direct, host, fanout, or auto (what lowers what binds)")
      ->capture_default_str();
  command
      .add_option("--costs", options->costs,
                  "What reads cost, by transport: verbs-cuda (into GPU memory), verbs, ucx, "
                  "local-mapped or local-vm")
      ->capture_default_str();
  command.add_option("--cluster", options->cluster,
                     "Cluster file; without one: hosts of 8 workers, a 400 Gb/s NIC each");
}

Result<std::unique_ptr<PlanJob>> PlanJob::make(const PlanJobOptions& options) {
  std::unique_ptr<PlanJob> job(new PlanJob);
  WB_RETURN_IF_ERROR(job->prepare(options));
  return job;
}

Status PlanJob::prepare(const PlanJobOptions& options) {
  options_ = options;
  FleetOptions fleet_options;
  WB_ASSIGN_OR_RETURN(fleet_options.policy, parse_policy(options.policy));
  const TransportCosts* costs = find_transport_costs(options.costs);
  if (costs == nullptr) {
    return Status(Code::kInvalidArgument,
                  "--costs is verbs-cuda, verbs, ucx, local-mapped or local-vm, not \"" +
                      options.costs + "\"");
  }
  fleet_options.costs = *costs;
  WB_ASSIGN_OR_RETURN(trainer_, parse_side("--trainer", options.trainer));
  WB_ASSIGN_OR_RETURN(rollout_, parse_side("--rollout", options.rollout));
  std::optional<ClusterFile> file;
  if (!options.cluster.empty()) {
    WB_ASSIGN_OR_RETURN(file, read_cluster(options.cluster, trainer_.world(), rollout_.world()));
    if (file->read_ns) fleet_options.costs.read_ps = *file->read_ns * 1000;
  }
  WB_ASSIGN_OR_RETURN(model_, open_model(options.model));
  WB_ASSIGN_OR_RETURN(sources_, lay_out_all(trainer_, model_.config, model_.table));
  WB_ASSIGN_OR_RETURN(receivers_, lay_out_all(rollout_, model_.config, model_.table));
  WB_RETURN_IF_ERROR(check_side(model_.table, sources_, LayoutRole::kSource));
  WB_RETURN_IF_ERROR(check_side(model_.table, receivers_, LayoutRole::kReceiver));
  packed_sources_ = pack(sources_);
  packed_receivers_ = pack(receivers_);
  FleetSide sources = fleet_side(sources_, packed_sources_, "trainer");
  FleetSide receivers = fleet_side(receivers_, packed_receivers_, "rollout");
  Cluster cluster;
  if (file) {
    cluster = std::move(file->cluster);
    fabric_ = std::move(file->fabric);
    for (size_t w = 0; w < sources.workers.size(); ++w) {
      sources.workers[w].seat = cluster.sources[w];
    }
    for (size_t w = 0; w < receivers.workers.size(); ++w) {
      receivers.workers[w].seat = cluster.receivers[w];
    }
  } else {
    cluster = plain_cluster(&sources.workers, &receivers.workers);
  }
  WB_ASSIGN_OR_RETURN(fleet_, Fleet::make(model_.table, sources, receivers, cluster));
  if (!fabric_.switch_of_host.empty()) reorder_fabric(cluster, fleet_->cluster(), &fabric_);
  WB_ASSIGN_OR_RETURN(plan_, plan_fleet(*fleet_, fleet_options));
  return {};
}

}  // namespace wb::cli
