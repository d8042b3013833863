// A rollout rank. Part of weightbridge.hpp.
#ifndef WEIGHTBRIDGE_RECEIVER_HPP
#define WEIGHTBRIDGE_RECEIVER_HPP

#include <weightbridge/job.hpp>
#include <weightbridge/layout.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weightbridge {

struct PullEvent {
  EventKind kind = EventKind::kStepBegin;
  PullStep step = PullStep::kDiscover;
  std::string_view source;
  Version version;
};

struct ReceiverOptions {
  std::string name = {};
  std::uint32_t index = 0;
  bool staging = false;
  bool huge_pages = false;  // of the staging set
  // On the pulling thread; may block, must not throw.
  std::function<void(const PullEvent&)> on_event = {};
};

struct SourceReport {
  std::string worker;
  std::string transport;
  std::string mechanism;
  std::string reason;
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0;
};

struct TimelineEntry {
  PullStep step = PullStep::kDiscover;
  std::chrono::nanoseconds begin{};  // since the call of pull()
  std::chrono::nanoseconds end{};
};

struct PullReport {
  Version version;  // accepted, or last tried
  MemoryState memory = MemoryState::kUntouched;
  std::uint32_t attempts = 0;
  std::uint32_t torn = 0;
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0;
  std::uint64_t versions_skipped = 0;
  std::chrono::nanoseconds read_time{};
  std::chrono::nanoseconds total_time{};
  std::vector<SourceReport> sources;
  std::vector<TimelineEntry> timeline;
  std::vector<std::string> finalisers;
};

class Receiver {
 public:
  static Result<Receiver> create(const Job& job, const Layout& layout,
                                 const ReceiverOptions& options, Timeout timeout) {
    auto owned = std::make_unique<Owned>(Owned{job.state_, options.on_event});
    wb_receiver_options raw{};
    raw.struct_size = sizeof raw;
    raw.name = detail::text_or_null(options.name);
    raw.index = options.index;
    raw.staging = options.staging ? 1 : 0;
    raw.huge_pages = options.huge_pages ? 1 : 0;
    if (owned->on_event) {
      raw.on_event = &forward_event;
      raw.event_user = owned.get();
    }
    wb_receiver* handle = nullptr;
    const wb_code code =
        wb_receiver_create(job.get(), layout.get(), &raw, detail::milliseconds(timeout), &handle);
    if (code != WB_OK) return Status::of(code);
    return Receiver(handle, std::move(owned));
  }

  // After an error, last_report().memory says what the buffers hold.
  Result<PullReport> pull(Want want, Timeout timeout) {
    const wb_pull_report* raw = nullptr;
    const wb_code code =
        wb_receiver_pull(get(), want.kind, want.number, detail::milliseconds(timeout), &raw);
    return finish(code, raw);
  }
  Result<PullReport> install() {
    const wb_pull_report* raw = nullptr;
    const wb_code code = wb_receiver_install(get(), &raw);
    return finish(code, raw);
  }
  // Of the last pull or install that reached the library's work, failed or not.
  const PullReport& last_report() const { return last_; }

  Result<std::string> report() const {
    const char* const text = wb_receiver_report(get());
    if (text == nullptr) return Status::of(wb_last_error()->code);
    return std::string(text);
  }
  Status close(Timeout timeout = kCloseTimeout) { return closing_.close(timeout); }
  wb_receiver* get() const { return closing_.get(); }

 private:
  struct Owned {
    std::shared_ptr<Job::State> job;
    std::function<void(const PullEvent&)> on_event;
  };

  static void forward_event(void* user, const wb_pull_event* raw) noexcept {
    static_cast<Owned*>(user)->on_event({static_cast<EventKind>(raw->kind),
                                         static_cast<PullStep>(raw->step),
                                         raw->source,
                                         {raw->version.generation, raw->version.number}});
  }

  static PullReport copy(const wb_pull_report& raw) {
    using std::chrono::nanoseconds;
    PullReport report;
    report.version = {raw.version.generation, raw.version.number};
    report.memory = static_cast<MemoryState>(raw.memory);
    report.attempts = raw.attempts;
    report.torn = raw.torn;
    report.bytes = raw.bytes;
    report.reads = raw.reads;
    report.versions_skipped = raw.versions_skipped;
    report.read_time = nanoseconds(raw.read_ns);
    report.total_time = nanoseconds(raw.total_ns);
    for (const auto& source : std::span(raw.sources, raw.source_count)) {
      report.sources.push_back({source.worker, source.transport, source.mechanism, source.reason,
                                source.bytes, source.reads});
    }
    for (const auto& entry : std::span(raw.timeline, raw.timeline_count)) {
      report.timeline.push_back({static_cast<PullStep>(entry.step), nanoseconds(entry.begin_ns),
                                 nanoseconds(entry.end_ns)});
    }
    for (const char* name : std::span(raw.finalisers, raw.finaliser_count)) {
      report.finalisers.emplace_back(name);
    }
    return report;
  }

  Result<PullReport> finish(wb_code code, const wb_pull_report* raw) {
    const Status status = Status::of(code);
    if (raw != nullptr) last_ = copy(*raw);
    if (!status.ok()) return status;
    return last_;
  }

  Receiver(wb_receiver* handle, std::unique_ptr<Owned> owned)
      : closing_(handle, std::move(owned)) {}
  detail::Closing<wb_receiver, wb_receiver_close, Owned> closing_;
  PullReport last_;
};

}  // namespace weightbridge

#endif
