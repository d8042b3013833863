// The timeline and the events of one pull.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/deadline.h"
#include "session/receiver.h"

namespace wb {

class PullTrace {
 public:
  using Callback = std::function<void(const PullEvent&)>;

  // Starts the clock. `report` and `callback` outlive the trace.
  PullTrace(PullReport* report, const Callback& callback);

  uint64_t now_ns() const;
  void begin(PullStep step);
  // Ends the step that began last.
  void end();
  // Builds nothing when nobody listens. `source` may be empty.
  void event(PullEvent::Kind kind, const std::string& source, const Version& version);

 private:
  PullReport* const report_;
  const Callback& callback_;
  const Deadline::Clock::time_point begun_;
  PullEvent event_;  // reused: its strings keep their capacity
};

// A step from here to the end of the scope, or to end().
class StepScope {
 public:
  StepScope(PullTrace* trace, PullStep step) : trace_(trace) { trace_->begin(step); }
  ~StepScope() { end(); }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;
  void end() {
    if (trace_ != nullptr) trace_->end();
    trace_ = nullptr;
  }

 private:
  PullTrace* trace_;
};

}  // namespace wb
