#include "cli/copy_meter.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

namespace wb::cli {

Result<CopyMeter> CopyMeter::make(uint64_t bytes, const std::string& memory, bool huge_pages) {
  const uint64_t chunk = std::clamp<uint64_t>(bytes, 1, uint64_t{128} << 20);
  WorkerLayout two;
  for (const char* name : {"from", "to"}) {
    two.buffers.push_back({name, DType::kU8, {static_cast<int64_t>(chunk)}, chunk});
  }
  WB_ASSIGN_OR_RETURN(RankMemory bound, bind_memory(two, memory, huge_pages));
  std::memset(bound.buffers[0], 1, static_cast<size_t>(chunk));
  std::memset(bound.buffers[1], 2, static_cast<size_t>(chunk));
  return CopyMeter(bytes, std::move(bound), chunk);
}

uint64_t CopyMeter::measure() {
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t left = bytes_; left != 0;) {
    const uint64_t n = std::min(left, chunk_);
    std::memcpy(memory_.buffers[1], memory_.buffers[0], static_cast<size_t>(n));
    // Without it the compiler may drop a copy that nobody reads.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    left -= n;
  }
  const auto span = std::chrono::steady_clock::now() - begin;
  return static_cast<uint64_t>(
      std::max<int64_t>(1, std::chrono::duration_cast<std::chrono::nanoseconds>(span).count()));
}

}  // namespace wb::cli
