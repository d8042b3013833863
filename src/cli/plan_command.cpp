#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/checked.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/reporter.h"
#include "layout/model_config.h"
#include "layout/rules.h"
#include "layout/safetensors.h"
#include "plan/plan.h"
#include "plan/proof.h"
#include "plan/summary.h"

namespace wb::cli {
namespace {

using nlohmann::json;

struct PlanOptions {
  std::string model;
  std::string trainer;
  std::string rollout;
  std::string receiver = "all";
  bool json = false;
};

// A worker laid out as bind_new_memory does it: one region, each buffer on a 4096-byte boundary.
struct Worker {
  std::string name;
  WorkerLayout layout;
  std::vector<Placement> placement;
  std::vector<uint64_t> region_bytes;
  PlanWorker view() const {
    return {.name = name, .layout = &layout, .placement = placement, .region_bytes = region_bytes};
  }
};

Result<Worker> lay_out_worker(std::string name, const Spec& spec, const ModelConfig& config,
                              const TensorTable& table, uint32_t rank, LayoutRole role) {
  Worker worker;
  worker.name = std::move(name);
  WB_ASSIGN_OR_RETURN(worker.layout, lay_out(spec, config, table, rank));
  WB_RETURN_IF_ERROR(check_layout(table, worker.layout, role));
  uint64_t offset = 0;
  for (const BufferInfo& buffer : worker.layout.buffers) {
    worker.placement.push_back({0, offset});
    offset += round_up(buffer.bytes, 4096);
  }
  worker.region_bytes = {offset};
  return worker;
}

struct ReceiverPlan {
  std::string name;
  uint64_t needed = 0;
  Plan plan;
  std::vector<EdgeSummary> edges;
  // Bytes read beyond those needed. The proof holds only when there are none.
  uint64_t surplus() const { return plan.bytes - std::min(plan.bytes, needed); }
};

void print_text(const std::vector<ReceiverPlan>& plans, const std::vector<Worker>& sources) {
  std::string out = fmt::format("{:<12} {:<12} {:>10} {:>9} {:>9} {:>10} {:>10}\n", "receiver",
                                "source", "bytes", "runs", "reads", "smallest", "largest");
  uint64_t bytes = 0, reads = 0, surplus = 0;
  for (const ReceiverPlan& receiver : plans) {
    for (const EdgeSummary& edge : receiver.edges) {
      out += fmt::format("{:<12} {:<12} {:>10} {:>9} {:>9} {:>10} {:>10}\n", receiver.name,
                         sources[edge.source].name, human_bytes(static_cast<double>(edge.bytes)),
                         edge.runs, edge.reads, human_bytes(static_cast<double>(edge.smallest)),
                         human_bytes(static_cast<double>(edge.largest)));
      reads += edge.reads;
    }
    bytes += receiver.plan.bytes;
    surplus += receiver.surplus();
  }
  out += fmt::format(
      "{} receiver(s) read {} from {} source(s) in {} reads; bytes duplicated or not needed: {}\n"
      "proof: ok, each needed byte is read exactly once, from the right coordinate, in bounds\n",
      plans.size(), human_bytes(static_cast<double>(bytes)), sources.size(), reads, surplus);
  std::cout << out << std::flush;
}

void print_json(const PlanOptions& options, const std::vector<ReceiverPlan>& plans,
                const std::vector<Worker>& sources) {
  json receivers = json::array();
  for (const ReceiverPlan& receiver : plans) {
    json edges = json::array();
    for (const EdgeSummary& edge : receiver.edges) {
      edges.push_back({{"source", sources[edge.source].name},
                       {"bytes", edge.bytes},
                       {"runs", edge.runs},
                       {"reads", edge.reads},
                       {"smallest_read", edge.smallest},
                       {"largest_read", edge.largest}});
    }
    receivers.push_back({{"receiver", receiver.name},
                         {"needed", receiver.needed},
                         {"bytes", receiver.plan.bytes},
                         {"surplus", receiver.surplus()},
                         {"inputs", receiver.plan.inputs.hex()},
                         {"proof", "ok"},
                         {"edges", std::move(edges)}});
  }
  std::cout << json{{"trainer", options.trainer},
                    {"rollout", options.rollout},
                    {"receivers", std::move(receivers)}}
                   .dump(1)
            << std::endl;
}

Status show(const PlanOptions& options) {
  WB_ASSIGN_OR_RETURN(const Spec trainer, parse_spec(options.trainer));
  WB_ASSIGN_OR_RETURN(const Spec rollout, parse_spec(options.rollout));
  uint32_t first = 0, end = rollout.world();
  if (options.receiver != "all") {
    const char* stop = options.receiver.data() + options.receiver.size();
    const auto [at, error] = std::from_chars(options.receiver.data(), stop, first);
    if (error != std::errc() || at != stop || first >= end) {
      return Status(Code::kInvalidArgument,
                    fmt::format("--receiver is \"all\" or a rank below {}, not \"{}\"", end,
                                options.receiver));
    }
    end = first + 1;
  }
  WB_ASSIGN_OR_RETURN(const ModelConfig config, read_model_config(options.model));
  WB_ASSIGN_OR_RETURN(const Checkpoint checkpoint, open_checkpoint(options.model));
  std::vector<Worker> sources;
  for (uint32_t rank = 0; rank < trainer.world(); ++rank) {
    WB_ASSIGN_OR_RETURN(auto source,
                        lay_out_worker("trainer-" + std::to_string(rank), trainer, config,
                                       checkpoint.table, rank, LayoutRole::kSource));
    sources.push_back(std::move(source));
  }
  std::vector<PlanWorker> views;
  for (const Worker& source : sources) views.push_back(source.view());

  std::vector<ReceiverPlan> plans;
  for (uint32_t rank = first; rank < end; ++rank) {
    WB_ASSIGN_OR_RETURN(const auto receiver,
                        lay_out_worker("rollout-" + std::to_string(rank), rollout, config,
                                       checkpoint.table, rank, LayoutRole::kReceiver));
    ReceiverPlan entry;
    entry.name = receiver.name;
    entry.needed = receiver.layout.piece_bytes(checkpoint.table);
    WB_ASSIGN_OR_RETURN(entry.plan, make_plan(checkpoint.table, receiver.view(), rank, views));
    WB_RETURN_IF_ERROR(prove_plan(checkpoint.table, receiver.view(), views, entry.plan));
    entry.edges = summarize(entry.plan);
    entry.plan.lists.clear();  // measured; a large job's lists need not all be kept
    plans.push_back(std::move(entry));
  }
  if (options.json) {
    print_json(options, plans, sources);
  } else {
    print_text(plans, sources);
  }
  return {};
}

}  // namespace

void add_plan(CLI::App& app, int* exit) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command =
      app.add_subcommand("plan", "Show who reads how much from whom, without running a job");
  command->footer(
      "Examples:\n"
      "  weightbridge plan --model DIR --trainer megatron:tp=2 --rollout vllm:tp=4\n"
      "  weightbridge plan --model DIR --trainer fsdp:shards=3 --rollout vllm:tp=4 --receiver 0 "
      "--json");
  command->add_option("--model", options->model, "Folder with the checkpoint and its config.json")
      ->required();
  command->add_option("--trainer", options->trainer, "SPEC of the trainers")->required();
  command->add_option("--rollout", options->rollout, "SPEC of the receivers")->required();
  command->add_option("--receiver", options->receiver, "Rank of one receiver, or all")
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, exit] {
    const Status status = show(*options);
    *exit = status.ok() ? kExitOk : fail("plan", status);
  });
}

}  // namespace wb::cli
