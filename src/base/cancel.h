// Lets close() of an object end the network calls that another thread makes for it. Calls are
// synchronous, so the flag belongs to the thread that waits: calls made inside a scope end with
// kCancelled soon after the flag is set, whatever their deadline.
#pragma once

#include <atomic>

namespace wb {

class CancelScope {
 public:
  // `flag` outlives the scope; null: calls inside cannot be cancelled.
  explicit CancelScope(const std::atomic<bool>* flag) : outer_(current_) { current_ = flag; }
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;
  ~CancelScope() { current_ = outer_; }

  // Whether a call of this thread could be, or has been, cancelled.
  static bool possible() { return current_ != nullptr; }
  static bool cancelled() { return possible() && current_->load(std::memory_order_relaxed); }

 private:
  inline static thread_local const std::atomic<bool>* current_ = nullptr;
  const std::atomic<bool>* const outer_;
};

}  // namespace wb
