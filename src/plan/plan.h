// Overlap of layouts -> which bytes a receiver reads from which source.
//
// Pure and deterministic: the same inputs give the same plan in every process. Integers only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "plan/read_list.h"

namespace wb {

// Where buffer i of a layout lies: byte `offset` of region `region`. Parallel to the buffers.
struct Placement {
  uint32_t region = 0;
  uint64_t offset = 0;
};

// A worker as the planner sees it. Pointers are borrowed for the call.
struct PlanWorker {
  std::string name;  // for error sentences: "trainer-3"
  const WorkerLayout* layout = nullptr;
  std::span<const Placement> placement;    // parallel to layout->buffers
  std::span<const uint64_t> region_bytes;  // size of each region
};

struct Plan {
  Digest inputs;                // of table, layouts, placements, receiver index and planner version
  std::vector<ReadList> lists;  // one per source that is read from, ascending source index
  uint64_t bytes = 0;           // equal to the receiver's piece bytes
};

// The plan of one receiver. `receiver_index` (its place among all receivers) rotates the use of
// replicas: each box that several sources hold is read from the source that this receiver has
// loaded least so far, ties broken by (source index + receiver_index) in turn.
//
// kNotCovered names the first tensor (and how many bytes of how many tensors) that no source holds.
// The layouts have passed check_layout. The result is NOT yet proved: see proof.h.
Result<Plan> make_plan(const TensorTable& table, const PlanWorker& receiver,
                       uint32_t receiver_index, std::span<const PlanWorker> sources);

}  // namespace wb
