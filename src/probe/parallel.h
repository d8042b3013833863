// The same work on many buffers, on a few threads.
#pragma once

#include <cstddef>
#include <functional>

#include "base/status.h"

namespace wb::probe {

// Calls work(0) ... work(count - 1), each once, on up to `threads` threads (this one included).
// Gives the failure of the lowest index; std::bad_alloc becomes kNoMemory. After a failure what has
// not begun is left out.
Status for_each_index(size_t count, unsigned threads, const std::function<Status(size_t)>& work);

}  // namespace wb::probe
