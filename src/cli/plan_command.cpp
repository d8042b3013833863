#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

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

constexpr size_t kMostEdgesPrinted = 128;

struct PlanOptions {
  PlanJobOptions job;
  std::string receiver = "all";
  ReportFiles files;
  std::vector<std::string> tensors;
};

std::string bytes_text(uint64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

class Report {
 public:
  Report(const PlanJob& job, const PlanFigures& figures, const Simulation* simulated)
      : job_(job), figures_(figures), simulated_(simulated) {
    for (const ReceiverFigures& receiver : figures.receivers) {
      reads_.push_back(receiver.shape.reads);
      needed_ += receiver.needed;
      bytes_ += receiver.bytes;
      memory_ = std::max(memory_, receiver.memory);
      shape_.rows += receiver.shape.rows;
      shape_.reads += receiver.shape.reads;
      shape_.staged += receiver.shape.staged;
      shape_.waste += receiver.shape.waste;
      shape_.relaid += receiver.shape.relaid;
      edges_ += receiver.edges.size();
    }
  }

  std::string text() const {
    std::string out = edges_ <= kMostEdgesPrinted ? edges() : std::string();
    out += fmt::format("{}: {} ({} trainers) -> {} ({} receivers), policy {}\n",
                       printable(job_.options().model), job_.options().trainer,
                       job_.fleet().sources().size(), job_.options().rollout,
                       job_.fleet().receivers().size(), policy_name(job_.plan().balance.policy));
    bytes_lines(&out);
    for (const LinkFigures& link : figures_.links) {
      line(&out, link_title(link.kind),
           fmt::format("min {}, mean {}, max {}; bound {}", bytes_text(link.spread.least),
                       human_bytes(link.spread.mean), bytes_text(link.spread.most),
                       bytes_text(link.bound)));
    }
    read_lines(&out);
    line(&out, "padding and unmapped",
         fmt::format("{} set to zero at each pull, {} left as they are",
                     bytes_text(figures_.padding), bytes_text(figures_.unmapped)) +
             (figures_.computed == 0
                  ? std::string()
                  : fmt::format(", {} computed by the engine", bytes_text(figures_.computed))));
    line(&out, "peak memory",
         fmt::format("{} of a receiver (weights, staging, read lists), {} of a trainer",
                     bytes_text(memory_), bytes_text(figures_.source_memory)));
    line(&out, "estimated time",
         fmt::format("{}: {} binds{}",
                     human_time(static_cast<double>(job_.plan().balance.nanoseconds)),
                     bottleneck_name(job_.plan().balance.binds),
                     simulated_ == nullptr
                         ? std::string()
                         : fmt::format("; simulated {}", human_time(simulated_->seconds * 1e9))));
    out += fmt::format(
        "{} receiver(s) planned; bytes duplicated or not needed: {}\n"
        "proof: ok, each needed byte is read exactly once, from the right coordinate, in "
        "bounds{}\n",
        figures_.receivers.size(), bytes_ - std::min(bytes_, needed_),
        figures_.together ? ", and no two receivers wait for each other" : "");
    return out;
  }

  json to_json() const {
    const FleetReport& report = job_.plan().report;
    json receivers = json::array(), links = json::array(), sizes = json::array();
    for (const ReceiverFigures& receiver : figures_.receivers) {
      receivers.push_back(receiver_json(receiver));
    }
    for (const LinkFigures& link : figures_.links) {
      links.push_back({{"what", bottleneck_name(link.kind)},
                       {"least", link.spread.least},
                       {"mean", link.spread.mean},
                       {"most", link.spread.most},
                       {"largest", link.largest},
                       {"bound", link.bound},
                       {"seconds", link.seconds},
                       {"names", link.names},
                       {"bytes", link.bytes}});
    }
    for (size_t i = 0; i < figures_.reads_of_size.size(); ++i) {
      if (figures_.reads_of_size[i] == 0) continue;
      sizes.push_back({{"from", uint64_t{1} << i},
                       {"reads", figures_.reads_of_size[i]},
                       {"bytes", figures_.bytes_of_size[i]}});
    }
    json out{{"model", job_.options().model},
             {"trainer", job_.options().trainer},
             {"rollout", job_.options().rollout},
             {"policy", policy_name(job_.plan().balance.policy)},
             {"inputs", report.inputs.hex()},
             {"needed", report.needed_bytes},
             {"distinct", report.distinct_bytes},
             {"stored", report.stored_bytes},
             {"from_trainers", figures_.from_sources},
             {"from_peers", figures_.from_peers},
             {"atoms", report.atoms},
             {"classes", job_.plan().classes().size()},
             {"cuts", report.cuts},
             {"padding", figures_.padding},
             {"unmapped", figures_.unmapped},
             {"computed", figures_.computed},
             {"peak_memory_receiver", memory_},
             {"peak_memory_trainer", figures_.source_memory},
             {"estimate_seconds", static_cast<double>(job_.plan().balance.nanoseconds) * 1e-9},
             {"binds", bottleneck_name(job_.plan().balance.binds)},
             {"links", std::move(links)},
             {"read_sizes", std::move(sizes)},
             {"receivers", std::move(receivers)}};
    if (simulated_ != nullptr) out["simulated_seconds"] = simulated_->seconds;
    return out;
  }

 private:
  static void line(std::string* out, std::string_view what, const std::string& text) {
    *out += fmt::format("  {:<24} {}\n", what, text);
  }
  static std::string_view link_title(Bottleneck kind) {
    switch (kind) {
      case Bottleneck::kSourceEgress:
        return "load per trainer NIC";
      case Bottleneck::kReceiverIngress:
        return "into a receiver's NIC";
      case Bottleneck::kReceiverEgress:
        return "out of a receiver's NIC";
      case Bottleneck::kInsideHost:
        return "inside hosts, by worker";
    }
    return "load";
  }
  const std::string& name_of(const EdgeFigures& edge) const {
    return edge.from_peer ? job_.fleet().receivers()[edge.worker].name
                          : job_.fleet().sources()[edge.worker].name;
  }
  const std::string& name_of(const ReceiverFigures& receiver) const {
    return job_.fleet().receivers()[receiver.receiver].name;
  }

  void bytes_lines(std::string* out) const {
    const FleetReport& report = job_.plan().report;
    const auto receivers = static_cast<double>(job_.fleet().receivers().size());
    line(out, "needed",
         fmt::format("{} by all receivers, {} of them distinct", bytes_text(report.needed_bytes),
                     bytes_text(report.distinct_bytes)));
    line(out, "read",
         fmt::format("{} from trainers, {} passed on by receivers",
                     bytes_text(figures_.from_sources), bytes_text(figures_.from_peers)));
    line(out, "saved",
         fmt::format("{} against the whole model to every receiver",
                     human_bytes(static_cast<double>(report.distinct_bytes) * receivers -
                                 static_cast<double>(report.needed_bytes))));
  }

  void read_lines(std::string* out) const {
    const Spread spread = spread_of(reads_);
    line(out, "reads per receiver",
         fmt::format("min {}, mean {:.0f}, max {} (of {} rows in all)", spread.least, spread.mean,
                     spread.most, shape_.rows));
    // The whole distribution is in the JSON and on the page.
    std::array<uint64_t, 4> reads{};
    for (size_t i = 0; i < figures_.reads_of_size.size(); ++i) {
      reads[i < 12 ? 0 : i < 16 ? 1 : i < 20 ? 2 : 3] += figures_.reads_of_size[i];
    }
    line(out, "read sizes",
         fmt::format("{} below 4 KiB, {} below 64 KiB, {} below 1 MiB, {} from 1 MiB on", reads[0],
                     reads[1], reads[2], reads[3]));
    line(out, "covering waste",
         fmt::format("{} fetched and thrown away; {} through the staging ring",
                     bytes_text(shape_.waste), bytes_text(shape_.staged)));
  }

  std::string edges() const {
    std::string out = fmt::format("{:<12} {:<12} {:>10} {:>9} {:>9} {:>10} {:>10}\n", "receiver",
                                  "source", "bytes", "runs", "reads", "smallest", "largest");
    for (const ReceiverFigures& receiver : figures_.receivers) {
      for (const EdgeFigures& edge : receiver.edges) {
        out += fmt::format("{:<12} {:<12} {:>10} {:>9} {:>9} {:>10} {:>10}\n", name_of(receiver),
                           name_of(edge), bytes_text(edge.bytes), edge.runs, edge.reads,
                           bytes_text(edge.smallest), bytes_text(edge.largest));
      }
    }
    return out;
  }

  json receiver_json(const ReceiverFigures& receiver) const {
    json edges = json::array();
    for (const EdgeFigures& edge : receiver.edges) {
      edges.push_back({{"source", name_of(edge)},
                       {"bytes", edge.bytes},
                       {"runs", edge.runs},
                       {"rows", edge.rows},
                       {"reads", edge.reads},
                       {"smallest_read", edge.smallest},
                       {"largest_read", edge.largest}});
    }
    return {{"receiver", name_of(receiver)},
            {"needed", receiver.needed},
            {"bytes", receiver.bytes},
            {"surplus", receiver.bytes - std::min(receiver.bytes, receiver.needed)},
            {"reads", receiver.shape.reads},
            {"rows", receiver.shape.rows},
            {"waste", receiver.shape.waste},
            {"staged", receiver.shape.staged},
            {"memory", receiver.memory},
            {"inputs", job_.plan().report.inputs.hex()},
            {"proof", "ok"},
            {"edges", std::move(edges)}};
  }

  const PlanJob& job_;
  const PlanFigures& figures_;
  const Simulation* simulated_;
  std::vector<uint64_t> reads_;
  ShapeSummary shape_;
  uint64_t needed_ = 0, bytes_ = 0, memory_ = 0;
  size_t edges_ = 0;
};

struct Ranks {
  uint32_t first = 0;
  uint32_t end = 0;
};

Result<Ranks> chosen_receivers(const std::string& text, uint32_t world) {
  Ranks ranks{0, world};
  if (text == "all") return ranks;
  const char* stop = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), stop, ranks.first);
  if (error != std::errc() || at != stop || ranks.first >= world) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--receiver is \"all\" or a rank below {}, not \"{}\"", world, text));
  }
  ranks.end = ranks.first + 1;
  return ranks;
}

Status show(const PlanOptions& options) {
  WB_ASSIGN_OR_RETURN(const Spec rollout, parse_spec(options.job.rollout));
  WB_ASSIGN_OR_RETURN(const Ranks ranks, chosen_receivers(options.receiver, rollout.world()));
  const bool all = ranks.first == 0 && ranks.end == rollout.world();
  if (!options.files.html.empty() && !all) {
    return Status(Code::kInvalidArgument, "--html shows all receivers: leave --receiver out");
  }
  WB_ASSIGN_OR_RETURN(const auto job, PlanJob::make(options.job));
  WB_ASSIGN_OR_RETURN(const PlanFigures figures,
                      measure(*job, ranks.first, ranks.end, /*prove=*/true));
  // Peers that were not asked for have no transfers, so that only the whole can be played.
  std::optional<Simulation> simulated;
  if (all) {
    WB_ASSIGN_OR_RETURN(simulated,
                        simulate_plan(job->cluster(), job->fabric(), figures.transfers, {}));
  }
  const Report report(*job, figures, simulated ? &*simulated : nullptr);
  if (!options.files.html.empty()) {
    WB_ASSIGN_OR_RETURN(const json data, plan_page(*job, figures, *simulated, options.tensors));
    WB_RETURN_IF_ERROR(write_output(options.files.html, make_page(data)));
  }
  return write_report(
      options.files, [&] { return report.text(); }, [&] { return report.to_json(); });
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
      "--json\n"
      "  weightbridge plan --model deepseek-v3 --trainer megatron:tp=8,pp=4,dp=8,ep=8,etp=1 \\\n"
      "      --rollout vllm:tp=1,dp=32,ep=32,engines=4 --html plan.html\n"
      "No weights, no GPUs and no framework are needed. Built-in models: qwen3-0.6b, "
      "qwen3-30b-a3b,\nqwen3-235b-a22b, llama-3.1-405b, deepseek-v3, kimi-k2.");
  add_plan_job_options(*command, &options->job);
  command->add_option("--receiver", options->receiver, "Rank of one receiver, or all")
      ->capture_default_str();
  add_report_options(*command, &options->files);
  command->add_option("--tensor", options->tensors, "A tensor that the page shows, too")
      ->needs("--html");
  command->callback([options, command, exit] {
    settle_report_options(*command, &options->files);
    const Status status = show(*options);
    *exit = status.ok() ? kExitOk : fail("plan", status);
  });
}

}  // namespace wb::cli
