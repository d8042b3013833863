// A job behind a handle, and the count of what was made from it.
#pragma once

#include <memory>
#include <mutex>

#include "base/status.h"
#include "capi/handle.h"
#include "session/job.h"

namespace wb::capi {

struct LogBridge;

class JobObject {
 public:
  static constexpr Kind kKind = Kind::kJob;

  JobObject(std::shared_ptr<Job> job, std::shared_ptr<LogBridge> log)
      : job_(std::move(job)), log_(std::move(log)) {}

  const std::shared_ptr<Job>& job() const { return job_; }
  const Log& log() const { return job_->options().log; }

  // A publisher or receiver of the job; while one is there the job cannot close.
  class Child {
   public:
    explicit Child(std::shared_ptr<JobObject> job) : job_(std::move(job)) {}
    Child(Child&& other) noexcept = default;
    Child& operator=(Child&&) = delete;
    ~Child() { leave(); }
    void leave();
    const std::shared_ptr<Job>& job() const { return job_->job_; }

   private:
    std::shared_ptr<JobObject> job_;  // null once left
  };
  static Result<Child> enter(const std::shared_ptr<JobObject>& self);

  Status close(Deadline deadline);

 private:
  const std::shared_ptr<Job> job_;
  const std::shared_ptr<LogBridge> log_;
  std::mutex mutex_;
  int children_ = 0;
  bool closing_ = false;
};

}  // namespace wb::capi
