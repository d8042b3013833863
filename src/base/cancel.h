// Ends what a thread does for an object, from outside: close() sets a flag while another thread is
// inside a call. Network calls inside a scope end with kCancelled soon after the flag is set,
// whatever their deadline. Computations, which have no deadline of their own, ask stop().
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/status.h"

namespace wb {

struct CancelState {
  const std::atomic<bool>* flag = nullptr;
  std::optional<Deadline> deadline;
};

class CancelScope {
 public:
  // `flag` outlives the scope; null: what is inside cannot be cancelled.
  explicit CancelScope(const std::atomic<bool>* flag) : outer_(current_) { current_.flag = flag; }
  // Computations inside end at `deadline`, and by the flag of the scope around this one.
  explicit CancelScope(Deadline deadline) : outer_(current_) { current_.deadline = deadline; }
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;
  ~CancelScope() { current_ = outer_; }

  // Whether a call of this thread could be, or has been, cancelled.
  static bool possible() { return current_.flag != nullptr; }
  static bool cancelled() { return possible() && current_.flag->load(std::memory_order_relaxed); }

  // Ok, or why a computation of this thread ends now: kCancelled, kDeadline. `what`: "planning".
  // Takes a look at the clock: to be asked every millisecond or so.
  static Status stop(const std::string& what) {
    if (cancelled()) return Status(Code::kCancelled, what + " was cancelled");
    if (current_.deadline && current_.deadline->expired()) {
      return Status(Code::kDeadline, what + " did not end in time");
    }
    return Status();
  }

 private:
  inline static thread_local CancelState current_;
  const CancelState outer_;
};

}  // namespace wb
