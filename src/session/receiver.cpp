#include "session/receiver.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/cancel.h"
#include "base/gate.h"
#include "session/bound_memory.h"
#include "session/formation_watch.h"
#include "session/job_internal.h"
#include "session/pull_trace.h"
#include "session/puller.h"
#include "session/report.h"
#include "session/source_set.h"
#include "session/target.h"

namespace wb {
namespace {

constexpr std::chrono::seconds kDestructorWait{15};
// After a create() that failed: its deadline may be over, and the lease ends by itself.
constexpr std::chrono::milliseconds kGiveUpWait{200};

// What a call says when it is cut short, by whatever name.
bool cut_short(Code code) {
  return code == Code::kDeadline || code == Code::kUnavailable || code == Code::kPeerLost ||
         code == Code::kCancelled;
}

class ReceiverImpl final : public Receiver {
 public:
  ReceiverImpl(std::shared_ptr<JobInternal> job, TensorTable table, WorkerLayout layout,
               BoundMemory live, ReceiverOptions options)
      : job_(std::move(job)),
        log_(job_->options().log),
        table_(std::move(table)),
        layout_(std::move(layout)),
        live_(std::move(live)),
        options_(std::move(options)),
        finalisers_(finalisers(layout_)),
        gate_(options_.name) {}

  ~ReceiverImpl() override {
    const Status status = close(Deadline::after(destructor_wait_));
    if (!status.ok()) {
      log_.write(LogLevel::kError, "session", "closing a receiver failed",
                 {{"receiver", options_.name}, {"error", status.to_string()}});
    }
  }

  Status start(Deadline deadline) {
    destructor_wait_ = kGiveUpWait;
    WB_RETURN_IF_ERROR(set_up(deadline));
    destructor_wait_ = kDestructorWait;
    return Status();
  }

  Status set_up(Deadline deadline) {
    note_unnamed();
    if (options_.staging) WB_RETURN_IF_ERROR(allocate_staging());
    WB_RETURN_IF_ERROR(register_memory());
    WB_ASSIGN_OR_RETURN(watch_, FormationWatch::start(job_->store(), job_->options().name, log_));
    WB_ASSIGN_OR_RETURN(fellows_, ReceiverRoster::enlist(*job_, table_, layout_, target(),
                                                         options_.name, options_.index, deadline));
    SourceSetInputs inputs;
    inputs.job = job_.get();
    inputs.table = &table_;
    inputs.layout = &layout_;
    inputs.target = &target();
    inputs.receiver = options_.name;
    inputs.local = registered_;
    inputs.unusable = unusable_;
    inputs.fellows = fellows_.get();
    inputs.watch = watch_.get();
    puller_ = std::make_unique<Puller>(std::move(inputs), watch_.get(), log_,
                                       [this] { return gate_.closing(); });
    note_report();
    return Status();
  }

  Status pull(const Want& want, Deadline deadline, PullReport* report) override {
    PullReport unwanted;
    if (report == nullptr) report = &unwanted;
    *report = PullReport();
    WB_ASSIGN_OR_RETURN(const Gate::Holder inside, gate_.enter());
    const CancelScope scope(&cancelled_);
    PullTrace trace(report, options_.on_event);
    Status status = puller_->pull(want, &trace, report, deadline);
    if (cut_short(status.code()) && cancelled_)
      status = Status(Code::kCancelled, options_.name + " was closed during the pull");
    // Reads of an earlier pull may still be in flight: then nothing is known of the memory.
    if (!status.ok() && puller_->unsettled()) report->memory = MemoryState::kTorn;
    if (report->memory != MemoryState::kUntouched) staged_.reset();
    if (status.ok()) accept(&trace, report);
    report->total_ns = trace.now_ns();
    if (puller_->connected_changed()) note_report();
    return status;
  }

  Status install(PullReport* report) override {
    PullReport unwanted;
    if (report == nullptr) report = &unwanted;
    *report = PullReport();
    WB_ASSIGN_OR_RETURN(const Gate::Holder inside, gate_.enter());
    if (!staging_.has_value()) {
      return Status(Code::kFailedPrecondition,
                    options_.name + " pulls into its live buffers: there is nothing to install");
    }
    if (!staged_.has_value()) {
      return Status(Code::kFailedPrecondition, "the staging set of " + options_.name +
                                                   " holds no complete version: pull first");
    }
    PullTrace trace(report, options_.on_event);
    report->version = staged_->version;
    {
      const StepScope step(&trace, PullStep::kInstall);
      copy_runs(staged_->plan->installs, *staging_, live_);
      zero_fill(layout_, live_);
    }
    report->memory = MemoryState::kComplete;
    report->bytes = staged_->plan->plan.bytes;
    report->finalisers = finalisers_;
    report->total_ns = trace.now_ns();
    return Status();
  }

  std::string report() const override {
    const std::lock_guard lock(report_mutex_);
    return report_;
  }

  Status close(Deadline deadline) override {
    cancelled_ = true;
    const std::lock_guard lock(close_mutex_);
    if (closed_) return Status();
    WB_RETURN_IF_ERROR(gate_.close(deadline));
    if (puller_ != nullptr) WB_RETURN_IF_ERROR(puller_->close(deadline));
    watch_.reset();
    Status first;
    if (fellows_ != nullptr) first = fellows_->close(deadline);
    for (RegisteredRegions& registered : registered_) {
      Status status = registered.release();
      if (first.ok() && !status.ok()) first = std::move(status);
    }
    closed_ = true;
    return first;
  }

 private:
  // A staging set that holds one version, and the plan that says which of its bytes.
  struct Staged {
    Version version;
    std::shared_ptr<const ProvedPlan> plan;
  };

  const BoundMemory& target() const { return staging_.has_value() ? *staging_ : live_; }

  Status allocate_staging() {
    AllocationOptions options;
    options.huge_pages = options_.huge_pages;
    options.name = "weightbridge-staging";
    auto bound = bind_new_memory(layout_, MemoryKind::kHost, options);
    if (!bound.ok()) return bound.status().prefixed("staging set of " + options_.name + ": ");
    WB_ASSIGN_OR_RETURN(staging_, group_buffers(layout_, *bound));
    return Status();
  }

  Status register_memory() {
    Status last(Code::kUnsupported, "this job has no transport that can run here");
    for (const auto& domain : job_->domains()) {
      auto registered =
          RegisteredRegions::make(domain.get(), target().regions, Access::kLocalTarget, log_);
      if (registered.ok()) {
        registered_.push_back(std::move(registered).value());
        continue;
      }
      const std::string name(transport_name(domain->kind()));
      last = registered.status().prefixed("registering memory with " + name + ": ");
      unusable_.push_back({domain->kind(), last.to_string()});
      log_.write(LogLevel::kWarn, "session", "a transport cannot reach this receiver's memory",
                 {{"receiver", options_.name}, {"transport", name}, {"error", last.to_string()}});
    }
    return registered_.empty() ? last : Status();
  }

  // All headers have been checked: the bytes of the plan are of one version. What the plan does
  // not write is finished only now, since until now the memory was not complete anyway.
  void accept(PullTrace* trace, PullReport* report) {
    {
      const StepScope step(trace, PullStep::kInstall);
      zero_fill(layout_, target());
    }
    report->memory = MemoryState::kComplete;
    if (staging_.has_value()) {
      staged_ = Staged{report->version, puller_->plan()};
    } else {
      report->finalisers = finalisers_;
    }
    for (const Lane& lane : puller_->lanes()) {
      report->bytes += lane.list->bytes;
      report->reads += lane.list->reads;
      report->sources.push_back(
          {lane.link->worker(), std::string(transport_name(lane.link->transport())),
           lane.link->mechanism(), lane.link->reason(), lane.list->bytes, lane.list->reads});
    }
    if (last_.has_value() && last_->generation == report->version.generation &&
        report->version.number > last_->number) {
      report->versions_skipped = report->version.number - last_->number - 1;
    }
    last_ = report->version;
  }

  void note_report();
  void note_unnamed();

  const std::shared_ptr<JobInternal> job_;
  const Log log_;
  const TensorTable table_;
  const WorkerLayout layout_;
  const BoundMemory live_;
  const ReceiverOptions options_;
  const std::vector<std::string> finalisers_;
  // Of buffers: in no piece and in no extra. A pull leaves them as they are.
  uint64_t unnamed_bytes_ = 0;

  std::optional<BoundMemory> staging_;
  std::vector<RegisteredRegions> registered_;  // of target(), per usable transport
  std::vector<MissingTransport> unusable_;
  std::unique_ptr<FormationWatch> watch_;
  std::unique_ptr<ReceiverRoster> fellows_;
  std::unique_ptr<Puller> puller_;
  Gate gate_;                            // pulls and installs
  std::atomic<bool> cancelled_ = false;  // by close(): ends the network calls of a pull
  std::chrono::milliseconds destructor_wait_ = kDestructorWait;

  std::optional<Staged> staged_;
  std::optional<Version> last_;  // pulled by this receiver

  mutable std::mutex report_mutex_;
  std::string report_;
  std::mutex close_mutex_;
  bool closed_ = false;
};

// A forgotten piece would leave stale weights in silence.
void ReceiverImpl::note_unnamed() {
  uint64_t named = layout_.piece_bytes(table_);
  uint64_t all = 0;
  for (const Extra& extra : layout_.extras) named += extra.bytes;
  for (const BufferInfo& buffer : layout_.buffers) all += buffer.bytes;
  unnamed_bytes_ = all > named ? all - named : 0;
  if (unnamed_bytes_ == 0) return;
  log_.write(LogLevel::kWarn, "session",
             "buffers have bytes that no piece and no extra names: pulls leave them as they are",
             {{"receiver", options_.name}, {"bytes", std::to_string(unnamed_bytes_)}});
}

void ReceiverImpl::note_report() {
  nlohmann::json out = job_report(*job_);
  out["role"] = "receiver";
  out["receiver"] = options_.name;
  out["index"] = options_.index;
  out["unnamed_bytes"] = unnamed_bytes_;
  out["table"] = table_.digest().hex();
  out["mode"] = staging_.has_value() ? "staging" : "live";
  out["memory"] = memory_report(target().regions);
  out["huge_pages"] = staging_.has_value() && options_.huge_pages;
  nlohmann::json unusable = nlohmann::json::array();
  for (const MissingTransport& one : unusable_)
    unusable.push_back({{"transport", transport_name(one.kind)}, {"reason", one.reason}});
  out["transports_unusable"] = std::move(unusable);
  nlohmann::json sources = nlohmann::json::array();
  for (const Lane& lane : puller_->lanes()) {
    sources.push_back({{"worker", lane.link->worker()},
                       {"transport", transport_name(lane.link->transport())},
                       {"mechanism", lane.link->mechanism()},
                       {"reason", lane.link->reason()},
                       {"slots", lane.link->manifest().slots},
                       {"in_place", lane.link->manifest().in_place},
                       {"bytes", lane.list->bytes},
                       {"reads", lane.list->reads}});
  }
  if (const auto plan = puller_->plan(); plan != nullptr) {
    out["plan"] = {{"inputs", plan->plan.inputs.hex()},
                   {"bytes", plan->plan.bytes},
                   {"proved", true},
                   {"receivers", plan->receivers}};
  }
  out["sources"] = std::move(sources);
  nlohmann::json missing = nlohmann::json::array();
  for (const MissingPeer& peer : puller_->missing()) {
    missing.push_back(
        {{"worker", "trainer-" + std::to_string(peer.rank)}, {"reason", peer.reason.to_string()}});
  }
  out["sources_missing"] = std::move(missing);
  const std::lock_guard lock(report_mutex_);
  report_ = dump_report(out);
}

Status check_options(const ReceiverOptions& options) {
  if (options.name.empty() || options.name.size() > 128) {
    return Status(Code::kInvalidArgument, "a receiver needs a name of 1 to 128 bytes");
  }
  return Status();
}

}  // namespace

Result<std::unique_ptr<Receiver>> Receiver::create(std::shared_ptr<Job> job, TensorTable table,
                                                   WorkerLayout layout,
                                                   std::vector<BoundBuffer> buffers,
                                                   ReceiverOptions options, Deadline deadline) {
  if (deadline.expired())
    return Status(Code::kDeadline, "the deadline of a receiver's creation has passed");
  WB_ASSIGN_OR_RETURN(auto with_transports, internal(std::move(job)));
  WB_RETURN_IF_ERROR(check_options(options));
  WB_RETURN_IF_ERROR(check_layout(table, layout, LayoutRole::kReceiver));
  WB_ASSIGN_OR_RETURN(BoundMemory live, group_buffers(layout, buffers));
  auto receiver =
      std::make_unique<ReceiverImpl>(std::move(with_transports), std::move(table),
                                     std::move(layout), std::move(live), std::move(options));
  WB_RETURN_IF_ERROR(receiver->start(deadline));
  return std::unique_ptr<Receiver>(std::move(receiver));
}

}  // namespace wb
