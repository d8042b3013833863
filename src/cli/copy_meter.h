// How fast this process copies memory: what a pull is compared with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/rank.h"

namespace wb::cli {

// Copies between two buffers of the same kind of memory as the weights, of the size of the weights
// but at most 128 MiB each (several times the caches); larger amounts are copied in rounds.
class CopyMeter {
 public:
  static Result<CopyMeter> make(uint64_t bytes, const std::string& memory, bool huge_pages);
  // Nanoseconds that memcpy takes for `bytes`.
  uint64_t measure();

 private:
  CopyMeter(uint64_t bytes, RankMemory memory, uint64_t chunk)
      : bytes_(bytes), chunk_(chunk), memory_(std::move(memory)) {}
  uint64_t bytes_;
  uint64_t chunk_;
  RankMemory memory_;
};

}  // namespace wb::cli
