#include "session/progress_thread.h"

#include <chrono>

#include "base/good_guest.h"

namespace wb {

// Short enough to keep a window of reads moving, long enough to leave the core to the trainer.
constexpr std::chrono::microseconds kPause{20};

std::unique_ptr<ProgressThread> ProgressThread::start_if_needed(Domain* domain) {
  if (!domain->needs_source_progress()) return nullptr;
  return std::unique_ptr<ProgressThread>(new ProgressThread(domain));
}

ProgressThread::ProgressThread(Domain* domain) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this, domain] {
    while (!stopping_.load(std::memory_order_relaxed)) {
      domain->progress();
      std::this_thread::sleep_for(kPause);
    }
  });
}

ProgressThread::~ProgressThread() {
  stopping_ = true;
  thread_.join();
}

}  // namespace wb
