// What a publisher or receiver behind a handle guards: one thread at a time in the calls that say
// so, and a close that waits for the calls inside.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "base/gate.h"
#include "base/status.h"

namespace wb::capi {

class Single {
 public:
  explicit Single(std::string name) : name_(name), gate_(std::move(name)) {}

  class Turn {
   public:
    Turn(Gate::Holder holder, std::atomic<bool>* busy) : holder_(std::move(holder)), busy_(busy) {}
    Turn(Turn&& other) noexcept
        : holder_(std::move(other.holder_)), busy_(std::exchange(other.busy_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (busy_ != nullptr) busy_->store(false, std::memory_order_release);
    }

   private:
    Gate::Holder holder_;
    std::atomic<bool>* busy_;
  };

  // kFailedPrecondition while another thread has its turn; kCancelled once closed.
  Result<Turn> enter() {
    WB_ASSIGN_OR_RETURN(Gate::Holder holder, gate_.enter());
    if (busy_.exchange(true, std::memory_order_acquire)) {
      return Status(Code::kFailedPrecondition, "another thread is inside this " + name_);
    }
    return Turn(std::move(holder), &busy_);
  }

  // Call after what the turns wait for has been cancelled.
  Status close(Deadline deadline) { return gate_.close(deadline); }

 private:
  const std::string name_;
  Gate gate_;
  std::atomic<bool> busy_{false};
};

}  // namespace wb::capi
