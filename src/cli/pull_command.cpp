#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/output_file.h"
#include "cli/commands.h"
#include "cli/copy_meter.h"
#include "cli/dump.h"
#include "cli/exit_code.h"
#include "cli/expect.h"
#include "cli/pull_json.h"
#include "cli/rank.h"
#include "cli/reporter.h"
#include "cli/steps.h"
#include "session/receiver.h"

namespace wb::cli {
namespace {

struct PullOptions : RankOptions {
  std::string name;
  std::string values = "changing";
  uint64_t at_least = 0;
  uint64_t exactly = 0;
  uint64_t pulls = 1;
  bool staging = false;
  bool verify = false;
  std::string dump;
  uint32_t receivers = 0;
  uint32_t trainers = 0;
  uint64_t overlap = 0;
};

// Waits inside the first read of one version until all trainers have begun to change the weights
// behind it, so that this read is certain to be torn.
class Disturbance {
 public:
  Disturbance(const PullOptions& options, Steps* steps) : options_(options), steps_(steps) {}

  void expect() { armed_ = true; }
  void on_event(const PullEvent& event) {
    if (event.kind != PullEvent::Kind::kFirstBytes || !std::exchange(armed_, false)) return;
    status_ = meet();
  }
  // For a receiver that reads nothing: the trainers must not wait for it.
  Status meet() {
    const Deadline deadline = options_.deadline();
    WB_RETURN_IF_ERROR(steps_->say("reading", options_.name, options_.overlap, deadline));
    return steps_->wait("updating", options_.trainers, options_.overlap + 1, deadline);
  }
  const Status& status() const { return status_; }

 private:
  const PullOptions& options_;
  Steps* steps_;
  bool armed_ = false;
  Status status_;
};

// One rollout rank: pulls versions one after the other.
class Rollout {
 public:
  // `check` may be null.
  Rollout(const PullOptions& options, Rank rank, const RankCheck* check)
      : options_(options),
        rank_(std::move(rank)),
        check_(check),
        needed_(rank_.layout.piece_bytes(rank_.checkpoint.table())),
        steps_(rank_.job->store(), options.job),
        disturbance_(options, &steps_),
        reporter_(options.json) {}

  Status run() {
    ReceiverOptions receiver_options;
    receiver_options.name = options_.name;
    receiver_options.index = options_.rank;
    receiver_options.staging = options_.staging;
    receiver_options.huge_pages = options_.huge_pages;
    receiver_options.on_event = [this](const PullEvent& event) { disturbance_.on_event(event); };
    WB_ASSIGN_OR_RETURN(
        receiver_,
        Receiver::create(rank_.job, rank_.checkpoint.table(), rank_.layout, rank_.memory.bound,
                         std::move(receiver_options), options_.deadline()));
    if (options_.receivers != 0) {
      WB_ASSIGN_OR_RETURN(auto meter,
                          CopyMeter::make(needed_, options_.memory, options_.huge_pages));
      meter_.emplace(std::move(meter));
    }
    reporter_.say(
        {{"event", "ready"}, {"rank", options_.rank}, {"needs", needed_}},
        fmt::format("{} needs {} in {} parameters", options_.name,
                    human_bytes(static_cast<double>(needed_)), rank_.layout.buffers.size()));
    for (uint64_t i = 0; i < options_.pulls; ++i) {
      const Want want = wanted(i);
      // A retry may have brought a newer version than was asked for.
      if (want.kind != Want::Kind::kLatest && last_ != 0 && want.number <= last_) continue;
      WB_RETURN_IF_ERROR(pull(want));
    }
    if (options_.receivers != 0) {
      reporter_.say({{"event", "startup"},
                     {"rank", options_.rank},
                     {"report", nlohmann::json::parse(receiver_->report(), nullptr, false)}},
                    "");
    }
    if (!options_.dump.empty()) {
      WB_RETURN_IF_ERROR(dump_safetensors(options_.dump, rank_.layout, rank_.memory.buffers));
      reporter_.say({{"event", "dumped"}, {"file", options_.dump}}, "wrote " + options_.dump);
    }
    const Deadline deadline = options_.deadline();
    WB_RETURN_IF_ERROR(receiver_->close(deadline));
    return rank_.job->close(deadline);
  }

  bool wrong() const { return wrong_; }

 private:
  Want wanted(uint64_t i) const {
    if (options_.exactly != 0) return {Want::Kind::kExactly, options_.exactly + i};
    if (options_.at_least != 0) return {Want::Kind::kAtLeast, options_.at_least + i};
    if (last_ != 0) return {Want::Kind::kAtLeast, last_ + 1};
    return {Want::Kind::kLatest, 0};
  }

  // No byte of an earlier version, nor the zeros of fresh memory, may pass for a pulled one.
  void poison() {
    const int pattern = 0xa5 ^ static_cast<int>(last_ & 0x5a);
    for (size_t i = 0; i < rank_.layout.buffers.size(); ++i) {
      std::memset(rank_.memory.buffers[i], pattern,
                  static_cast<size_t>(rank_.layout.buffers[i].bytes));
    }
  }

  Status pull(const Want& want) {
    poison();
    if (options_.overlap != 0 && want.number == options_.overlap) {
      if (needed_ == 0) {
        WB_RETURN_IF_ERROR(disturbance_.meet());
      } else {
        disturbance_.expect();
      }
    }
    PullReport report;
    Status pulled = receiver_->pull(want, options_.deadline(), &report);
    if (!disturbance_.status().ok()) return disturbance_.status();
    if (!pulled.ok()) return pulled;
    if (options_.staging) WB_RETURN_IF_ERROR(receiver_->install(&report));
    last_ = report.version.number;

    nlohmann::json event = to_json(report);
    event["event"] = "pulled";
    event["rank"] = options_.rank;
    event["needed"] = needed_;
    if (meter_.has_value()) {
      // All receivers copy at the same time, as they all pulled at the same time.
      const Deadline deadline = options_.deadline();
      WB_RETURN_IF_ERROR(steps_.say("pulled", options_.name, last_, deadline));
      WB_RETURN_IF_ERROR(steps_.wait("pulled", options_.receivers, last_, deadline));
      event["memcpy_ns"] = meter_->measure();
    }
    std::string text = summary(report);
    if (check_ != nullptr) {
      const Verification checked =
          check_->verify(rank_, report.version.number, values_of(options_.values));
      event["verified"] = checked.verified;
      event["expected"] = checked.needed;
      event["padding"] = checked.padding;
      event["wrong"] = checked.wrong;
      event["fault"] = checked.fault;
      text += fmt::format("; {} of {} bytes verified, {} bytes of padding are zero",
                          checked.verified, needed_, checked.padding);
      if (!checked.ok() || checked.needed != needed_ || report.bytes != needed_) {
        wrong_ = true;
        text += "; WRONG: " +
                (checked.fault.empty() ? std::string("bytes are missing") : checked.fault);
      }
    }
    reporter_.say(event, text);
    if (options_.receivers != 0) {
      WB_RETURN_IF_ERROR(steps_.say("done", options_.name, last_, options_.deadline()));
    }
    return {};
  }

  static std::string summary(const PullReport& report) {
    const double seconds = static_cast<double>(report.read_ns) / 1e9;
    std::string text =
        fmt::format("version {}: {} from {} sources in {} ({:.2f} GB/s), {} attempts, {} torn",
                    report.version.number, human_bytes(static_cast<double>(report.bytes)),
                    report.sources.size(), human_time(static_cast<double>(report.read_ns)),
                    seconds > 0 ? static_cast<double>(report.bytes) / 1e9 / seconds : 0.0,
                    report.attempts, report.torn);
    for (const SourceReport& source : report.sources) {
      text += fmt::format("\n  {}: {} over {} ({}): {}", source.worker,
                          human_bytes(static_cast<double>(source.bytes)), source.transport,
                          source.mechanism, source.reason);
    }
    return text;
  }

  const PullOptions& options_;
  Rank rank_;
  const RankCheck* const check_;
  const uint64_t needed_;
  Steps steps_;
  Disturbance disturbance_;
  Reporter reporter_;
  std::optional<CopyMeter> meter_;
  // Behind what its callback uses, so that it ends first.
  std::unique_ptr<Receiver> receiver_;
  uint64_t last_ = 0;
  bool wrong_ = false;
};

Status pull(const PullOptions& options, bool* wrong) {
  if (!options.dump.empty()) WB_RETURN_IF_ERROR(check_output(options.dump));
  WB_ASSIGN_OR_RETURN(Rank rank, open_rank(options, LayoutRole::kReceiver));
  std::optional<RankCheck> check;
  if (options.verify) {
    WB_ASSIGN_OR_RETURN(check, RankCheck::make(options, rank.spec));
  }
  Rollout rollout(options, std::move(rank), check.has_value() ? &*check : nullptr);
  Status status = rollout.run();
  *wrong = rollout.wrong();
  return status;
}

}  // namespace

void add_pull(CLI::App& app, int* exit) {
  auto options = std::make_shared<PullOptions>();
  CLI::App* command = app.add_subcommand("pull", "Run one rollout rank: pull what it needs");
  command->footer(
      "Examples:\n"
      "  weightbridge pull --model DIR --rollout vllm:tp=4 --rank 2 --store http://10.0.0.1:7070 "
      "\\\n"
      "      --token-file job.token --dump rank2.safetensors\n"
      "  weightbridge pull --model DIR --rollout vllm:tp=4 --rank 2 --store http://10.0.0.1:7070 "
      "\\\n"
      "      --token-file job.token --at-least 5 --pulls 10 --verify");
  add_rank_options(*command, "--rollout", options.get());
  command->add_option("--name", options->name,
                      "Unique name of this receiver in the job (default: rollout-RANK)");
  auto* at_least =
      command->add_option("--at-least", options->at_least, "Pull this version or a newer one");
  command->add_option("--exactly", options->exactly, "Pull this version and no other")
      ->excludes(at_least);
  command
      ->add_option("--pulls", options->pulls,
                   "How often to pull; each pull asks for the next version")
      ->capture_default_str();
  command->add_flag("--staging", options->staging,
                    "Pull into a second set of memory, then install it");
  command->add_flag("--verify", options->verify,
                    "Compare each byte with an independent expectation; exit 1 if one is wrong");
  command->add_option(
      "--dump", options->dump,
      "Write what the rank holds to this safetensors file after the last pull; replaces "
      "nothing but a regular file");
  command->add_option("--values", options->values, "As the publisher's; used by --verify")
      ->capture_default_str()
      ->check(CLI::IsMember({"changing", "checkpoint"}));
  command
      ->add_option("--receivers", options->receivers,
                   "Keep in step with this many receivers, and measure memcpy after each pull")
      ->group("Advanced");
  command->add_option("--trainers", options->trainers, "Number of trainer ranks (for --overlap)")
      ->group("Advanced");
  command
      ->add_option("--overlap", options->overlap,
                   "Stay in the read of this version until its weights change")
      ->group("Advanced");
  command->callback([options, exit] {
    if (options->name.empty()) options->name = "rollout-" + std::to_string(options->rank);
    bool wrong = false;
    const Status status = pull(*options, &wrong);
    if (!status.ok()) {
      *exit = fail("pull", status);
    } else if (wrong) {
      *exit = fail("pull", kExitWrong, "wrong bytes: see stdout", kDefectHint);
    } else {
      *exit = kExitOk;
    }
  });
}

}  // namespace wb::cli
