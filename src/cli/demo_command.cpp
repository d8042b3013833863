#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/hash.h"
#include "base/output_file.h"
#include "base/split.h"
#include "cli/children.h"
#include "cli/commands.h"
#include "cli/demo_results.h"
#include "cli/exit_code.h"
#include "cli/rank.h"
#include "cli/steps.h"
#include "cli/token.h"
#include "control/peer.h"
#include "control/store_server.h"
#include "layout/rules.h"
#include "layout/safetensors.h"

namespace wb::cli {
namespace {

constexpr uint32_t kMostRanks = 512;

struct DemoOptions : DemoSettings {
  std::string store = "embed:127.0.0.1:0";
  std::string token_file;
  std::string json_file;
  bool verbose = false;
};

// A folder of this run, removed with it.
class PrivateFolder {
 public:
  Status make() {
    std::error_code error;
    std::string name =
        (std::filesystem::temp_directory_path(error) / "weightbridge-XXXXXX").string();
    if (error) return Status(Code::kIo, "there is no folder for temporary files");
    if (::mkdtemp(name.data()) == nullptr) return errno_status(errno, "making the folder " + name);
    path_ = name;
    return {};
  }
  ~PrivateFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// What a run ended with: an exit code, and what to say when it is not 0.
struct Outcome {
  int exit = kExitOk;
  std::string failure;
  std::string_view hint;

  static Outcome of(const Status& status) {
    return {exit_code(status.code()), status.to_string(), cli::hint(status.code())};
  }
};

class Demo {
 public:
  Demo(const DemoOptions& options, Children children)
      : options_(options), children_(std::move(children)) {}

  // An error before any rank was started.
  Status prepare() {
    WB_RETURN_IF_ERROR(check_layouts());
    results_ = std::make_unique<DemoResults>(options_);
    WB_RETURN_IF_ERROR(open_store());
    std::printf("%s: %s -> %s, %s, %lu versions; %u + %u processes, store at %s\n",
                printable(options_.model).c_str(), options_.trainer.c_str(),
                options_.rollout.c_str(), options_.in_place() ? "in place" : "snapshots",
                static_cast<unsigned long>(options_.versions), options_.trainers,
                options_.receivers, url_.c_str());
    std::fflush(stdout);
    return {};
  }

  Outcome run() {
    Status started = start();
    Outcome outcome = started.ok() ? watch() : Outcome::of(started);
    children_.end_all();
    if (store_ != nullptr) {
      const Status closed = store_->close(Deadline::after(std::chrono::seconds(5)));
      if (outcome.exit == kExitOk && !closed.ok()) outcome = Outcome::of(closed);
    } else {
      forget_steps(outcome.exit == kExitOk);
    }
    if (outcome.exit == kExitOk) {
      if (const std::string fault = results_->fault(); !fault.empty())
        outcome = {kExitWrong, fault, kDefectHint};
    }
    return outcome;
  }

  const DemoResults& results() const { return *results_; }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  // Every layout that this job will use, so that what a framework refuses is said before any
  // process is started.
  Status check_layouts() {
    if (options_.versions == 0) return Status(Code::kInvalidArgument, "--versions starts at 1");
    WB_RETURN_IF_ERROR(parse_transport(options_.transport).status());
    WB_ASSIGN_OR_RETURN(const Spec trainer, parse_spec(options_.trainer));
    WB_ASSIGN_OR_RETURN(const Spec rollout, parse_spec(options_.rollout));
    options_.trainers = trainer.world();
    options_.receivers = rollout.world();
    if (options_.trainers + options_.receivers > kMostRanks) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{} + {} ranks; the demo starts at most {} processes",
                                options_.trainers, options_.receivers, kMostRanks));
    }
    WB_ASSIGN_OR_RETURN(const ModelConfig config, read_model_config(options_.model));
    WB_ASSIGN_OR_RETURN(const Checkpoint checkpoint, open_checkpoint(options_.model));
    for (const Spec* spec : {&trainer, &rollout}) {
      for (uint32_t rank = 0; rank < spec->world(); ++rank) {
        WB_RETURN_IF_ERROR(lay_out(*spec, config, checkpoint.table, rank).status());
      }
    }
    return {};
  }

  Status open_store() {
    WB_RETURN_IF_ERROR(folder_.make());
    token_file_ = options_.token_file;
    if (token_file_.empty()) {
      token_file_ = (folder_.path() / "token").string();
      WB_RETURN_IF_ERROR(create_token_file(token_file_));
    }
    WB_ASSIGN_OR_RETURN(token_, read_token_file(token_file_));
    constexpr std::string_view kEmbed = "embed:";
    url_ = options_.store;
    if (url_.rfind(kEmbed, 0) != 0) return {};
    WB_ASSIGN_OR_RETURN(store_,
                        StoreServer::listen(std::string_view(url_).substr(kEmbed.size()), token_));
    url_ = store_->endpoint();
    return {};
  }

  // Another's store outlives this run, so the run's keys are taken out of it. Best effort: the keys
  // belong to a job name that is never used again. Trouble is told only if the run went well:
  // otherwise the run has told what is wrong.
  void forget_steps(bool tell) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(5));
    StoreOptions store;
    store.endpoints = split_commas(url_);
    store.token = token_;
    auto client = StoreClient::connect(store, deadline);
    Status forgotten = client.status();
    if (client.ok()) forgotten = Steps(std::move(client).value(), job_).forget(deadline);
    // A store that does not answer any more cannot be tidied, and need not be.
    const bool gone = forgotten.code() == Code::kUnavailable || forgotten.code() == Code::kDeadline;
    if (tell && !forgotten.ok() && !gone) {
      std::fprintf(stderr, "weightbridge demo: could not tidy the store: %s\n",
                   printable(forgotten.to_string()).c_str());
    }
  }

  std::vector<std::string> common(const char* command, const std::string& spec,
                                  uint32_t rank) const {
    const char* side = std::string_view(command) == "publish" ? "--trainer" : "--rollout";
    std::vector<std::string> words{command};
    const auto add = [&](const char* option, std::string value) {
      words.insert(words.end(), {option, std::move(value)});
    };
    add("--model", options_.model);
    add(side, spec);
    add("--rank", std::to_string(rank));
    add("--store", url_);
    add("--token-file", token_file_);
    add("--job", job_);
    add("--transport", options_.transport);
    if (!options_.verbs.empty()) add("--verbs", options_.verbs);
    add("--timeout", fmt::format("{}", options_.timeout));
    add("--receivers", std::to_string(options_.receivers));
    add("--overlap", std::to_string(options_.overlap()));
    words.emplace_back("--json");
    if (options_.verbose) words.emplace_back("--verbose");
    return words;
  }

  Status start() {
    for (uint32_t rank = 0; rank < options_.trainers; ++rank) {
      auto words = common("publish", options_.trainer, rank);
      words.insert(words.end(),
                   {"--verify", "--no-hold", "--mode", options_.mode, "--memory", options_.memory,
                    "--versions", std::to_string(options_.published())});
      WB_RETURN_IF_ERROR(children_.spawn(fmt::format("trainer-{}", rank), words).status());
    }
    for (uint32_t rank = 0; rank < options_.receivers; ++rank) {
      auto words = common("pull", options_.rollout, rank);
      // In place a version can be gone before it is read, so a receiver takes what is newest.
      words.insert(words.end(), {options_.in_place() ? "--at-least" : "--exactly", "1", "--pulls",
                                 std::to_string(options_.published()), "--trainers",
                                 std::to_string(options_.trainers), "--verify"});
      WB_RETURN_IF_ERROR(children_.spawn(fmt::format("rollout-{}", rank), words).status());
    }
    return {};
  }

  Outcome watch() {
    // Each wait of a rank ends within the timeout, and a rank says something after each wait.
    const auto patience = std::chrono::duration_cast<Deadline::Clock::duration>(
        std::chrono::duration<double>(2 * options_.timeout + 30));
    while (children_.running() != 0) {
      auto event = children_.next(Deadline::after(patience));
      if (!event.ok()) return Outcome::of(event.status());
      switch (event->kind) {
        case ChildEvent::Kind::kInterrupted:
          return {kExitInterrupted, "interrupted; all ranks have been ended",
                  cli::hint(Code::kCancelled)};
        case ChildEvent::Kind::kLine:
          progress(results_->add(event->line));
          break;
        case ChildEvent::Kind::kErrorLine:
          if (options_.verbose) {
            std::fprintf(stderr, "%s: %s\n", children_.name(event->child).c_str(),
                         printable(event->line).c_str());
          }
          break;
        case ChildEvent::Kind::kExited:
          if (clean(*event)) break;
          return obituary(*event);
      }
    }
    // Lines that were read together with the last exits.
    for (;;) {
      auto event = children_.next(Deadline::after(std::chrono::seconds(0)));
      if (!event.ok()) break;
      if (event->kind == ChildEvent::Kind::kLine) progress(results_->add(event->line));
      if (event->kind == ChildEvent::Kind::kExited && !clean(*event)) return obituary(*event);
    }
    return {};
  }

  // Wrong bytes of receivers are judged from the reports, when all have told theirs. Without a
  // trainer nobody gets further. Trainers are the first children.
  bool clean(const ChildEvent& event) const {
    if (event.exit_signal != 0) return false;
    return event.exit_code == kExitOk ||
           (event.exit_code == kExitWrong && event.child >= options_.trainers);
  }

  Outcome obituary(const ChildEvent& event) const {
    const std::string words = children_.last_words(event.child);
    Outcome outcome{event.exit_code == kExitWrong ? kExitWrong : kExitRank,
                    {},
                    "--verbose shows all that the ranks say"};
    outcome.failure =
        fmt::format("{} ended {}{}", children_.name(event.child),
                    event.exit_signal != 0 ? fmt::format("by signal {}", event.exit_signal)
                                           : fmt::format("with exit code {}", event.exit_code),
                    words.empty() ? ", and said nothing" : "; its last words: " + words);
    // The rank knows better what to do than this process.
    if (words.find("(hint: ") != std::string::npos) outcome.hint = {};
    return outcome;
  }

  void progress(const std::string& text) const {
    if (text.empty()) return;
    std::printf("[%6.2f s] %s\n", seconds(), text.c_str());
    std::fflush(stdout);
  }

  DemoOptions options_;
  Children children_;
  std::unique_ptr<DemoResults> results_;  // made when the number of ranks is known
  PrivateFolder folder_;
  std::unique_ptr<StoreServer> store_;
  std::string token_file_, token_, url_;
  const std::string job_ = "demo-" + random_id().hex().substr(0, 12);
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

Status write_json(const std::string& path, const nlohmann::json& value) {
  return write_output(path,
                      value.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

int run_demo(const DemoOptions& options) {
  auto children = Children::make();
  if (!children.ok()) return fail("demo", children.status());
  Demo demo(options, std::move(children).value());
  if (const Status ready = demo.prepare(); !ready.ok()) return fail("demo", ready);
  Outcome outcome = demo.run();
  std::fputs(printable_lines(demo.results().text(outcome.failure)).c_str(), stdout);
  std::fflush(stdout);
  if (!options.json_file.empty()) {
    const Status written =
        write_json(options.json_file, demo.results().to_json(outcome.failure, demo.seconds()));
    // A failure of the run matters more, and its reason is shown nowhere else.
    if (!written.ok() && outcome.exit == kExitOk) return fail("demo", written);
    if (!written.ok()) fail("demo", written);
  }
  if (outcome.exit == kExitOk) return kExitOk;
  return fail("demo", outcome.exit, outcome.failure, outcome.hint);
}

}  // namespace

void add_demo(CLI::App& app, int* exit) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* command = app.add_subcommand(
      "demo", "Move a model between processes of two layouts and verify every byte");
  command->footer(
      "Examples:\n"
      "  weightbridge demo --model DIR --trainer megatron:tp=2 --rollout vllm:tp=4\n"
      "  weightbridge demo --model DIR --trainer fsdp:shards=3 --rollout vllm:tp=4 --mode snapshot "
      "\\\n      --transport ucx --json result.json\n"
      "Each rank is a process of its own that knows only the store, the token and its rank. "
      "Between\n"
      "versions every element of every weight changes; each receiver overwrites its memory before "
      "a\n"
      "pull and compares every byte after it with an expectation that is worked out from the\n"
      "checkpoint file without the library.");
  command->add_option("--model", options->model, "Folder with the checkpoint and its config.json")
      ->required();
  command->add_option("--trainer", options->trainer, "SPEC of the trainers, e.g. megatron:tp=2")
      ->required();
  command->add_option("--rollout", options->rollout, "SPEC of the receivers, e.g. vllm:tp=4")
      ->required();
  command->add_option("--versions", options->versions, "Versions that each receiver pulls")
      ->capture_default_str();
  command
      ->add_option("--mode", options->mode,
                   "inplace (one read of each receiver is torn on purpose) or snapshot")
      ->capture_default_str()
      ->check(CLI::IsMember({"inplace", "snapshot"}));
  command->add_option("--transport", options->transport, "auto, local, ucx or verbs")
      ->capture_default_str();
  command
      ->add_option("--verbs", options->verbs,
                   "For --transport verbs: KEY=VALUE,... as in docs/verbs.md")
      ->envname("WEIGHTBRIDGE_VERBS");
  command
      ->add_option("--memory", options->memory,
                   "Where the trainers' weights lie: shared (can be mapped), host or caller")
      ->capture_default_str()
      ->check(CLI::IsMember({"shared", "host", "caller"}));
  command
      ->add_option("--store", options->store,
                   "embed:HOST:PORT, or the URL of a store that runs already")
      ->capture_default_str();
  command->add_option("--token-file", options->token_file,
                      "File with the job's token (default: a new one for this run)");
  command->add_option("--timeout", options->timeout, "Seconds until a single wait is given up")
      ->capture_default_str()
      ->check(sensible_seconds());
  command->add_option("--json", options->json_file, "Write all results to this file");
  command->add_flag("--verbose", options->verbose, "Show what the ranks write to stderr");
  command->callback([options, exit] { *exit = run_demo(*options); });
}

}  // namespace wb::cli
