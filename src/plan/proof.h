// The independent proof of a plan. Shares no code with the planner: it goes from the bytes of each
// run back to checkpoint coordinates through both layouts, and never through boxes' set algebra.
#pragma once

#include <span>

#include "base/status.h"
#include "plan/plan.h"

namespace wb {

// Ok exactly when the runs of `plan` write every byte of every piece of the receiver once, write no
// other byte, read inside the source's regions and buffers, and each byte written comes from the
// checkpoint coordinate (tensor, element, byte of element) that belongs there. kUnproven otherwise,
// with the run and the byte at fault.
Status prove_plan(const TensorTable& table, const PlanWorker& receiver,
                  std::span<const PlanWorker> sources, const Plan& plan);

}  // namespace wb
