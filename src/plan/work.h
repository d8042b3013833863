// A bound on how much a plan or a proof may compute. Counted in steps, not in time, so that the
// same inputs give the same answer on every machine; a CancelScope around it ends it earlier.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/cancel.h"
#include "base/status.h"

namespace wb {

class Work {
 public:
  explicit Work(uint64_t steps) : left_(steps), look_(steps) {}

  // False when the bound is reached or the thread is to stop; stays false then.
  bool spend(uint64_t steps) {
    if (steps > left_) {
      left_ = 0;
      return false;
    }
    left_ -= steps;
    return left_ > look_ || look();
  }

  bool is_exhausted() const { return left_ == 0; }

  // Why spend() gave false.
  static Status exhausted(const std::string& what) {
    Status stopped = CancelScope::stop(what);
    if (!stopped.ok()) return stopped;
    return Status(Code::kUnsupported, what +
                                          ": the layouts are too irregular to be planned in "
                                          "reasonable time (work bound reached)");
  }

 private:
  static constexpr uint64_t kStepsBetweenLooks = uint64_t{1} << 14;  // about a millisecond

  bool look() {
    look_ = left_ - std::min(left_, kStepsBetweenLooks);
    if (CancelScope::stop("").ok()) return true;
    left_ = 0;
    return false;
  }

  uint64_t left_;
  uint64_t look_;  // asks for a stop again when no more than so many are left
};

}  // namespace wb
