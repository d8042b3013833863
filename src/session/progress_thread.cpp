#include "session/progress_thread.h"

#include <chrono>

#include "base/thread.h"

namespace wb {

// Short enough to keep a window of reads moving, long enough to leave the core to the trainer.
constexpr std::chrono::microseconds kPause{20};

Result<std::unique_ptr<ProgressThread>> ProgressThread::start_if_needed(Domain* domain) {
  if (!domain->needs_source_progress()) return std::unique_ptr<ProgressThread>();
  std::unique_ptr<ProgressThread> helper(new ProgressThread());
  WB_ASSIGN_OR_RETURN(helper->thread_,
                      start_thread("serve readers", [&stopping = helper->stopping_, domain] {
                        while (!stopping.load(std::memory_order_relaxed)) {
                          domain->progress();
                          std::this_thread::sleep_for(kPause);
                        }
                      }));
  return helper;
}

ProgressThread::~ProgressThread() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

}  // namespace wb
