#include "probe/parallel.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/good_guest.h"

namespace wb::probe {

Status for_each_index(size_t count, unsigned threads, const std::function<Status(size_t)>& work) {
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  Status first;  // of the lowest index
  size_t first_index = count;
  const auto run = [&] {
    for (size_t i; !failed.load(std::memory_order_relaxed) && (i = next.fetch_add(1)) < count;) {
      Status status;
      try {
        status = work(i);
      } catch (const std::bad_alloc&) {
        status = Status(Code::kNoMemory, "no memory is left while the buffers are read");
      }
      if (status.ok()) continue;
      failed = true;
      const std::lock_guard lock(mutex);
      if (i < first_index) {
        first_index = i;
        first = std::move(status);
      }
    }
  };
  std::vector<std::thread> helpers;
  const size_t wanted = std::min<size_t>(std::max(threads, 1u), count);
  helpers.reserve(wanted);
  for (size_t i = 1; i < wanted; ++i) {
    try {
      const SignalsBlocked quiet;
      helpers.emplace_back(run);
    } catch (const std::system_error&) {
      break;  // fewer threads do the same work
    }
  }
  run();
  for (std::thread& helper : helpers) helper.join();
  return first;
}

}  // namespace wb::probe
