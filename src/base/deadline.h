// A point in time after which waiting must stop. Every wait in the library takes one.
#pragma once

#include <algorithm>
#include <chrono>

namespace wb {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline after(Clock::duration span) { return Deadline(Clock::now() + span); }
  static Deadline at(Clock::time_point when) { return Deadline(when); }

  Clock::time_point when() const { return when_; }
  bool expired() const { return Clock::now() >= when_; }
  // Never negative.
  Clock::duration remaining() const {
    return std::max(Clock::duration::zero(), when_ - Clock::now());
  }
  // For poll(2) and friends: rounded up, so a positive rest never becomes a busy loop of zeros.
  int remaining_ms() const {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(remaining()).count();
    return static_cast<int>(std::min<decltype(ms)>(ms, 1 << 30));
  }
  // The earlier of this and `span` from now: for one step of a longer wait.
  Deadline capped(Clock::duration span) const {
    return Deadline(std::min(when_, Clock::now() + span));
  }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}
  Clock::time_point when_;
};

}  // namespace wb
