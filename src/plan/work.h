// A bound on how much a plan or a proof may compute. Counted in steps, not in time, so that the
// same inputs give the same answer on every machine.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace wb {

class Work {
 public:
  explicit Work(uint64_t steps) : left_(steps) {}

  // False when the bound is reached; stays false then.
  bool spend(uint64_t steps) {
    if (steps > left_) {
      left_ = 0;
      return false;
    }
    left_ -= steps;
    return true;
  }

  bool is_exhausted() const { return left_ == 0; }

  static Status exhausted(const std::string& what) {
    return Status(Code::kUnsupported, what +
                                          ": the layouts are too irregular to be planned in "
                                          "reasonable time (work bound reached)");
  }

 private:
  uint64_t left_;
};

}  // namespace wb
