// What publishers and receivers of one process share behind the Job interface.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "session/job.h"
#include "transport/transport.h"

namespace wb {

// A transport that the options allow but that this process cannot run, and why.
struct MissingTransport {
  TransportKind kind = TransportKind::kLocal;
  std::string reason;
};

class JobInternal : public Job {
 public:
  // In the order of preference. They live as long as the job.
  virtual std::span<const std::unique_ptr<Domain>> domains() const = 0;
  virtual std::span<const MissingTransport> missing() const = 0;
  // The domain that one publisher serves its memory through: domains()[index], or one of that kind
  // for this publisher alone. Where the source's process answers reads (UCX over TCP), requests
  // wait in the domain, and name memory by its address: they must end with the publisher that they
  // were meant for.
  virtual Result<std::shared_ptr<Domain>> serving_domain(size_t index) = 0;
};

// Every Job is made by open(): kInvalidArgument for null and for another implementation.
Result<std::shared_ptr<JobInternal>> internal(std::shared_ptr<Job> job);

// Job::open with transports that the caller made, instead of those that the options name.
Result<std::shared_ptr<Job>> open_job_over(JobOptions options,
                                           std::vector<std::unique_ptr<Domain>> domains,
                                           Deadline deadline);

}  // namespace wb
