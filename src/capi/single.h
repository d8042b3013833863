// What a publisher or receiver behind a handle guards: one thread at a time in the calls that say
// so, and a close that waits for the calls inside.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "base/gate.h"
#include "base/status.h"
#include "capi/error.h"
#include "capi/handle.h"

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

// Closes the publisher or receiver behind a handle. While calls inside it do not end (kDeadline)
// the handle stays, to be closed again.
template <typename Object, typename Engine>
Status close_object(const void* handle, int64_t timeout_ms,
                    const std::unique_ptr<Engine> Object::*engine) {
  WB_ASSIGN_OR_RETURN(const auto object, find<Object>(handle));
  WB_ASSIGN_OR_RETURN(const Deadline deadline, deadline_in(timeout_ms));
  Status status = ((*object).*engine)->close(deadline);
  if (status.code() == Code::kDeadline) return status;
  WB_RETURN_IF_ERROR(object->single.close(deadline));
  WB_RETURN_IF_ERROR(remove_handle(Object::kKind, handle).status());
  object->child.leave();
  return status;
}

}  // namespace wb::capi
