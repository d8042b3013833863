// Helps transports whose readers advance only while the source's process does (UCX over TCP).
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "base/status.h"
#include "transport/transport.h"

namespace wb {

class ProgressThread {
 public:
  // Null when the transport needs no help.
  static Result<std::unique_ptr<ProgressThread>> start_if_needed(Domain* domain);
  ~ProgressThread();  // ends the thread: within a millisecond
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

 private:
  ProgressThread() = default;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace wb
