// The trainer's step: gives every weight that a rank holds its value at one version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cli/checkpoint_map.h"
#include "layout/worker_layout.h"

namespace wb::cli {

enum class Values {
  kChanging,    // the change rule: every element is new in every version
  kCheckpoint,  // the checkpoint's own values, in every version
};

// Writes the elements of all pieces of `layout` into `buffers` (parallel to layout.buffers; the
// layout has passed check_layout). Bytes without a piece keep what they hold.
void fill(const CheckpointMap& checkpoint, const WorkerLayout& layout,
          std::span<std::byte* const> buffers, uint64_t version, Values values);

}  // namespace wb::cli
