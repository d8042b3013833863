#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/fill.h"
#include "cli/interrupt.h"
#include "cli/rank.h"
#include "cli/reporter.h"
#include "cli/steps.h"
#include "session/publisher.h"

namespace wb::cli {
namespace {

struct PublishOptions : RankOptions {
  std::string mode = "inplace";
  std::string values = "changing";
  uint32_t slots = 2;
  uint64_t first = 1;
  uint64_t versions = 1;
  double interval = 0;
  bool hold = true;
  bool verify = false;
  uint32_t receivers = 0;
  uint64_t overlap = 0;
};

// One trainer rank: changes all its weights, says that a version is ready, and again.
class Trainer {
 public:
  Trainer(const PublishOptions& options, Rank rank, std::unique_ptr<Publisher> publisher)
      : options_(options),
        in_place_(options.mode == "inplace"),
        rank_(std::move(rank)),
        publisher_(std::move(publisher)),
        steps_(rank_.job->store(), options.job),
        reporter_(options.json) {}

  Status run() {
    reporter_.say(
        {{"event", "ready"},
         {"rank", options_.rank},
         {"store", rank_.job->store_url()},
         {"report", nlohmann::json::parse(publisher_->report(), nullptr, false)}},
        fmt::format("trainer-{} of {}: all {} ranks are there; the store is {}", options_.rank,
                    options_.spec, rank_.spec.world(), rank_.job->store_url()));
    const uint64_t last = options_.first + options_.versions - 1;
    for (uint64_t version = options_.first; version <= last && !interrupted(); ++version) {
      if (version != options_.first) {
        WB_RETURN_IF_ERROR(before_update(version));
        if (wait_for_interrupt(std::chrono::duration<double>(options_.interval))) break;
      }
      fill(rank_.checkpoint, rank_.layout, rank_.memory.buffers, version,
           values_of(options_.values));
      if (options_.verify && version == options_.first) WB_RETURN_IF_ERROR(verify(version));
      WB_RETURN_IF_ERROR(publish(version));
    }
    if (!interrupted() && options_.receivers != 0) {
      WB_RETURN_IF_ERROR(steps_.wait("done", options_.receivers, last, options_.deadline()));
    }
    const bool cut_short = interrupted();
    if (options_.hold) wait_for_interrupt();
    const Deadline deadline = options_.deadline();
    const Status closed = publisher_->close(deadline);
    const Status left = rank_.job->close(deadline);
    if (!closed.ok()) return closed;
    if (!left.ok()) return left;
    if (cut_short && !options_.hold) return Status(Code::kCancelled, "interrupted by a signal");
    return {};
  }

 private:
  // In place, the weights of the version before must not change until its readers are done with it,
  // or, at the version whose readers are meant to be disturbed, until each of them is in the middle
  // of it.
  Status before_update(uint64_t version) {
    const Deadline deadline = options_.deadline();
    if (!in_place_) return publisher_->begin_update(nullptr);
    const bool disturb = options_.overlap != 0 && version == options_.overlap + 1;
    if (options_.receivers != 0) {
      WB_RETURN_IF_ERROR(
          steps_.wait(disturb ? "reading" : "done", options_.receivers, version - 1, deadline));
    }
    WB_RETURN_IF_ERROR(publisher_->begin_update(nullptr));
    if (!disturb) return {};
    return steps_.say("updating", std::to_string(options_.rank), version, deadline);
  }

  // The layout decides where each weight lies, in all versions alike: one look is enough.
  Status verify(uint64_t version) {
    WB_ASSIGN_OR_RETURN(const RankCheck check, RankCheck::make(options_, rank_.spec));
    const Verification found = check.verify(rank_, version, values_of(options_.values));
    reporter_.say({{"event", "verified"},
                   {"rank", options_.rank},
                   {"verified", found.verified},
                   {"expected", found.needed}},
                  fmt::format("{} of {} bytes lie where {} has them", found.verified, found.needed,
                              options_.spec));
    if (found.ok()) return {};
    return Status(Code::kUnproven, fmt::format("trainer-{} does not hold what {} means: {}",
                                               options_.rank, options_.spec, found.fault));
  }

  Status publish(uint64_t version) {
    // A slot is taken again only when its version has been read.
    if (!in_place_ && options_.receivers != 0 && version >= options_.first + options_.slots) {
      WB_RETURN_IF_ERROR(
          steps_.wait("done", options_.receivers, version - options_.slots, options_.deadline()));
    }
    WB_RETURN_IF_ERROR(publisher_->publish(version, nullptr));
    const PublisherStats stats = publisher_->stats();
    reporter_.say({{"event", "published"},
                   {"rank", options_.rank},
                   {"version", version},
                   {"generation", stats.version.generation},
                   {"publish_ns", stats.last_publish_ns},
                   {"begin_update_ns", stats.last_begin_ns}},
                  fmt::format("version {} published in {}", version,
                              human_time(static_cast<double>(stats.last_publish_ns))));
    return {};
  }

  const PublishOptions& options_;
  const bool in_place_;
  Rank rank_;
  std::unique_ptr<Publisher> publisher_;
  Steps steps_;
  Reporter reporter_;
};

Status publish(const PublishOptions& options) {
  if (options.versions == 0) return Status(Code::kInvalidArgument, "--versions starts at 1");
  WB_ASSIGN_OR_RETURN(Rank rank, open_rank(options, LayoutRole::kSource));
  PublisherOptions publisher_options;
  publisher_options.rank = options.rank;
  publisher_options.world = rank.spec.world();
  publisher_options.mode =
      options.mode == "inplace" ? PublishMode::kInPlace : PublishMode::kSnapshot;
  publisher_options.slots = options.slots;
  publisher_options.huge_pages = options.huge_pages;
  WB_ASSIGN_OR_RETURN(auto publisher,
                      Publisher::create(rank.job, rank.checkpoint.table(), rank.layout,
                                        rank.memory.bound, publisher_options, options.deadline()));
  return Trainer(options, std::move(rank), std::move(publisher)).run();
}

}  // namespace

void add_publish(CLI::App& app, int* exit) {
  auto options = std::make_shared<PublishOptions>();
  CLI::App* command = app.add_subcommand("publish", "Run one trainer rank");
  command->footer(
      "Examples:\n"
      "  weightbridge publish --model DIR --trainer megatron:tp=2 --rank 0 \\\n"
      "      --store embed:0.0.0.0:7070 --host 10.0.0.1 --token-file job.token --versions 100 "
      "--interval 5\n"
      "  weightbridge publish --model DIR --trainer megatron:tp=2 --rank 1 \\\n"
      "      --store http://10.0.0.1:7070 --host 10.0.0.2 --token-file job.token --versions 100 "
      "--interval 5\n"
      "Version v of an element is its bits in the checkpoint XOR a key made from (v, tensor, "
      "index): "
      "docs/command-line.md.");
  add_rank_options(*command, "--trainer", options.get());
  command
      ->add_option("--mode", options->mode, "inplace (readers read the live weights) or snapshot")
      ->capture_default_str()
      ->check(CLI::IsMember({"inplace", "snapshot"}));
  command->add_option("--slots", options->slots, "Versions that a snapshot publisher can hold")
      ->capture_default_str();
  command->add_option("--first", options->first, "Number of the first version")
      ->capture_default_str();
  command->add_option("--versions", options->versions, "How many versions to publish")
      ->capture_default_str();
  command->add_option("--interval", options->interval, "Seconds between two versions")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--hold,!--no-hold", options->hold,
                    "After the last version serve it until SIGINT or SIGTERM (the default)");
  command->add_flag("--verify", options->verify,
                    "Before the first version, compare each byte that this rank holds with an "
                    "independent expectation; exit 1 if one is wrong");
  command
      ->add_option("--values", options->values,
                   "changing (each element is new in each version) or checkpoint (the file's own)")
      ->capture_default_str()
      ->check(CLI::IsMember({"changing", "checkpoint"}));
  command
      ->add_option("--receivers", options->receivers,
                   "Change weights only when this many `pull --receivers` are done with a version")
      ->group("Advanced");
  command
      ->add_option("--overlap", options->overlap,
                   "In place: change the weights behind this version in the middle of its reads")
      ->group("Advanced");
  command->callback([options, exit] {
    catch_interrupts();
    const Status status = publish(*options);
    *exit = status.ok() ? kExitOk : fail("publish", status);
  });
}

}  // namespace wb::cli
