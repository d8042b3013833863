#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/page.h"
#include "cli/plan_figures.h"
#include "cli/plan_job.h"
#include "cli/plan_page.h"
#include "cli/report_files.h"
#include "cli/reporter.h"
#include "plan/simulate.h"

namespace wb::cli {
namespace {

using nlohmann::json;

constexpr size_t kLine = 60;  // characters of a utilisation over time

struct SimulateOptions {
  PlanJobOptions job;
  SimulationOptions simulation;
  ReportFiles files;
};

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}
double most(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// Which trainers gather together: each pipeline stage of Megatron, all trainers of the others.
std::vector<uint32_t> stages(const Spec& spec) {
  const uint32_t world = spec.world();
  const uint32_t groups = spec.framework == Framework::kMegatron ? spec.pp : 1;
  std::vector<uint32_t> group(world);
  for (uint32_t w = 0; w < world; ++w) group[w] = w / (world / groups);  // stages come slowest
  return group;
}

// A collective holds everybody who takes part from its begin to its end.
void stand_still(Way* way) {
  way->trainer_stall = way->simulation.seconds;
  way->trainer_gpu_seconds = sum(way->simulation.sources);
  way->rollout_gpu_seconds = sum(way->simulation.receivers);
}

Result<std::vector<Way>> play(const PlanJob& job, const PlanFigures& figures,
                              const SimulationOptions& options) {
  std::vector<Way> ways;
  Way plan{.key = "plan",
           .title = "WeightBridge",
           .text =
               "The plan, read by every receiver for itself. Trainers that publish in place go on "
               "training; those that wait for their readers stand still until their last byte has "
               "been read."};
  WB_ASSIGN_OR_RETURN(plan.simulation,
                      simulate_plan(job.cluster(), job.fabric(), figures.transfers, options));
  plan.bound = static_cast<double>(job.plan().balance.nanoseconds) * 1e-9;
  plan.trainer_stall = most(plan.simulation.sources);
  plan.trainer_gpu_seconds = sum(plan.simulation.sources);
  plan.rollout_gpu_seconds = sum(plan.simulation.receivers);
  ways.push_back(std::move(plan));

  const std::vector<uint32_t> groups = stages(job.trainer());
  const auto broadcast = [&](Way way, const std::vector<uint32_t>& group_of) -> Status {
    WB_ASSIGN_OR_RETURN(
        way.simulation,
        simulate_broadcast(job.cluster(), job.fabric(), job.plan().classes(), group_of, options));
    stand_still(&way);
    ways.push_back(std::move(way));
    return {};
  };
  const uint32_t roots = groups.back() + 1;
  WB_RETURN_IF_ERROR(broadcast(
      {.key = "gather",
       .title = "gather + broadcast",
       .text = fmt::format(
           "The first rank of each of {} group(s) gathers the group's tensors and broadcasts them "
           "whole to all receivers, the next bucket being gathered while one is sent.",
           roots)},
      groups));
  WB_RETURN_IF_ERROR(
      broadcast({.key = "rank0",
                 .title = "broadcast from rank 0",
                 .text = "Rank 0 gathers the whole model and broadcasts it to all receivers."},
                std::vector<uint32_t>(groups.size(), 0)));
  return ways;
}

std::string text_of(const PlanJob& job, const std::vector<Way>& ways) {
  std::string out = fmt::format(
      "{}: {} ({} trainers) -> {} ({} receivers), policy {}\n", printable(job.options().model),
      job.options().trainer, job.fleet().sources().size(), job.options().rollout,
      job.fleet().receivers().size(), policy_name(job.plan().balance.policy));
  out += fmt::format("{:<24} {:>10} {:>8} {:>22} {:>22} {:>14}\n", "way", "time", "factor",
                     "trainers stand still", "receivers (mean)", "GPU time lost");
  for (const Way& way : ways) {
    const auto receivers =
        static_cast<double>(std::max<size_t>(1, way.simulation.receivers.size()));
    out += fmt::format("{:<24} {:>10} {:>8.2f} {:>22} {:>22} {:>14}\n", way.title,
                       human_time(way.simulation.seconds * 1e9),
                       way.simulation.seconds / ways.front().simulation.seconds,
                       human_time(way.trainer_stall * 1e9),
                       human_time(way.rollout_gpu_seconds / receivers * 1e9),
                       human_time((way.trainer_gpu_seconds + way.rollout_gpu_seconds) * 1e9));
  }
  const Way& plan = ways.front();
  out += fmt::format(
      "{} binds: {}; simulated / what binds: {:.3f}\n"
      "Trainers that publish in place and do not wait stand still for microseconds: {} GPU time "
      "lost.\n",
      bottleneck_name(job.plan().balance.binds), human_time(plan.bound * 1e9),
      plan.bound > 0 ? plan.simulation.seconds / plan.bound : 0,
      human_time(plan.rollout_gpu_seconds * 1e9));
  for (const Way& way : ways) {
    out += fmt::format("\n{}, over {}\n", way.title, human_time(way.simulation.seconds * 1e9));
    for (const Usage& usage : way.simulation.usage) {
      if (most(usage.part) < 0.001) continue;
      out += fmt::format("  {:<22} |{}| mean {:.0f} %\n", link_name(usage.link),
                         spark_line(usage.part, kLine),
                         100 * sum(usage.part) / static_cast<double>(usage.part.size()));
    }
  }
  return out;
}

json json_of(const PlanJob& job, const std::vector<Way>& ways) {
  json list = json::array();
  for (const Way& way : ways) {
    json usage = json::object();
    for (const Usage& each : way.simulation.usage) {
      usage[std::string(link_name(each.link))] = each.part;
    }
    list.push_back({{"way", way.key},
                    {"seconds", way.simulation.seconds},
                    {"factor", way.simulation.seconds / ways.front().simulation.seconds},
                    {"trainer_stall_seconds", way.trainer_stall},
                    {"trainer_gpu_seconds", way.trainer_gpu_seconds},
                    {"rollout_gpu_seconds", way.rollout_gpu_seconds},
                    {"receivers", way.simulation.receivers},
                    {"usage", std::move(usage)}});
  }
  return {{"model", job.options().model},
          {"trainer", job.options().trainer},
          {"rollout", job.options().rollout},
          {"policy", policy_name(job.plan().balance.policy)},
          {"binds", bottleneck_name(job.plan().balance.binds)},
          {"bound_seconds", ways.front().bound},
          {"ways", std::move(list)}};
}

Status simulate(const SimulateOptions& options) {
  WB_ASSIGN_OR_RETURN(const auto job, PlanJob::make(options.job));
  const auto receivers = static_cast<uint32_t>(job->fleet().receivers().size());
  WB_ASSIGN_OR_RETURN(const PlanFigures figures, measure(*job, 0, receivers, /*prove=*/false));
  WB_ASSIGN_OR_RETURN(const auto ways, play(*job, figures, options.simulation));
  if (!options.files.html.empty()) {
    WB_RETURN_IF_ERROR(write_output(options.files.html, make_page(simulation_page(*job, ways))));
  }
  return write_report(
      options.files, [&] { return text_of(*job, ways); }, [&] { return json_of(*job, ways); });
}

}  // namespace

void add_simulate(CLI::App& app, int* exit) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand(
      "simulate", "Play an update on a described cluster, beside gather and broadcast");
  command->footer(
      "Examples:\n"
      "  weightbridge simulate --model deepseek-v3 \\\n"
      "      --trainer megatron:tp=8,pp=4,dp=8,ep=8,etp=1 \\\n"
      "      --rollout vllm:tp=1,dp=32,ep=32,engines=4\n"
      "  weightbridge simulate --model qwen3-0.6b --trainer fsdp:shards=8 --rollout vllm:tp=4 "
      "--html simulation.html");
  add_plan_job_options(*command, &options->job);
  command
      ->add_option("--at-once", options->simulation.at_once,
                   "Workers that a receiver reads from at the same time; 0: all")
      ->capture_default_str();
  add_report_options(*command, &options->files);
  command->callback([options, command, exit] {
    settle_report_options(*command, &options->files);
    const Status status = simulate(*options);
    *exit = status.ok() ? kExitOk : fail("simulate", status);
  });
}

}  // namespace wb::cli
