// Gate: "stop accepting, then wait for what is inside". The way every object with concurrent work
// is torn down. After seastar's gate.hh.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include "base/deadline.h"
#include "base/status.h"

namespace wb {

class Gate {
 public:
  // `name` says in error sentences which gate was closed: "publisher".
  explicit Gate(std::string name) : name_(std::move(name)) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // One entry; leaving is automatic.
  class Holder {
   public:
    explicit Holder(Gate* gate) : gate_(gate) {}
    Holder(Holder&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Holder& operator=(Holder&&) = delete;
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
    ~Holder() {
      if (gate_ != nullptr) gate_->leave();
    }

   private:
    Gate* gate_;
  };

  // kCancelled once close() has begun.
  Result<Holder> enter() {
    const std::lock_guard lock(mutex_);
    if (closed_) return Status(Code::kCancelled, name_ + " is closed");
    ++inside_;
    return Holder(this);
  }

  bool closing() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

  // Refuses new entries and waits until the inside is empty: kDeadline if something stays longer.
  Status close(Deadline deadline) {
    std::unique_lock lock(mutex_);
    closed_ = true;
    if (empty_.wait_until(lock, deadline.when(), [this] { return inside_ == 0; })) return Status();
    return Status(Code::kDeadline, "closing " + name_ + ": " + std::to_string(inside_) +
                                       " operation(s) did not end in time");
  }

 private:
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) empty_.notify_all();
  }

  const std::string name_;
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  int inside_ = 0;
  bool closed_ = false;
};

}  // namespace wb
