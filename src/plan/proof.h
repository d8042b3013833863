// The independent proof of a plan. Shares no code with the planner: it goes from the bytes of each
// run back to checkpoint coordinates through both layouts, and never through boxes' set algebra.
#pragma once

#include <optional>
#include <span>

#include "base/status.h"
#include "plan/plan.h"
#include "plan/work.h"
#include "plan/writes.h"

namespace wb {

// Ok exactly when the runs of `plan` write every byte of every piece of the receiver once, write no
// other byte, read inside the source's regions and buffers, and each byte written comes from the
// checkpoint coordinate (tensor, element, byte of element) that belongs there. kUnproven otherwise,
// with the run and the byte at fault. kUnsupported when the layouts are so irregular that the proof
// would take minutes.
Status prove_plan(const TensorTable& table, const PlanWorker& receiver,
                  std::span<const PlanWorker> sources, const Plan& plan);

namespace proof {

class Homes;

// Steps that the proof of one receiver may take: a second or two.
inline constexpr uint64_t kMaxSteps = uint64_t{1} << 28;

// A worker with its homes looked up before, for workers that many plans read from.
struct Prepared {
  const PlanWorker* worker = nullptr;
  const Homes* needs = nullptr;  // by region; of a receiver
  const Homes* held = nullptr;   // by region and tensor; of whom is read from
};

// prove_plan with prepared workers; the lists of the plan may come in any order, also several of
// one source.
Status prove_lists(const TensorTable& table, const Prepared& receiver,
                   std::span<const Prepared> sources, std::span<const ReadList* const> lists,
                   Work* work);

// The smallest interval that holds what a run writes (or, `remote`, reads), or nothing when that is
// not inside a region of `size` bytes.
std::optional<Span> span_of_run(const Run& run, bool remote, uint64_t size);

}  // namespace proof
}  // namespace wb
