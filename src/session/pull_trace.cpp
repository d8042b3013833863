#include "session/pull_trace.h"

namespace wb {
namespace {

// Room for the steps of a pull with a few retries: no allocation while data moves.
constexpr size_t kUsualSteps = 64;
constexpr size_t kUsualName = 128;

}  // namespace

PullTrace::PullTrace(PullReport* report, const Callback& callback)
    : report_(report), callback_(callback), begun_(Deadline::Clock::now()) {
  report_->timeline.reserve(kUsualSteps);
  if (callback_) event_.source.reserve(kUsualName);
}

uint64_t PullTrace::now_ns() const {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Deadline::Clock::now() - begun_)
          .count());
}

void PullTrace::begin(PullStep step) {
  const uint64_t now = now_ns();
  report_->timeline.push_back({step, now, now});
  event_.step = step;
  event(PullEvent::Kind::kStepBegin, std::string(), report_->version);
}

void PullTrace::end() {
  report_->timeline.back().end_ns = now_ns();
  event(PullEvent::Kind::kStepEnd, std::string(), report_->version);
}

void PullTrace::event(PullEvent::Kind kind, const std::string& source, const Version& version) {
  if (!callback_) return;
  event_.kind = kind;
  event_.source = source;
  event_.version = version;
  callback_(event_);
}

}  // namespace wb
