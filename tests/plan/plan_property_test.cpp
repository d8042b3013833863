// Random worlds against the oracle that moves single bytes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "oracle.h"
#include "plan/plan.h"
#include "plan/proof.h"
#include "world.h"

namespace wb::test {
namespace {

// RapidCheck's first seeds are small and come again; more worlds per seed make up for it.
constexpr uint64_t kWorlds = 20;

template <typename Visit>
void for_worlds(uint64_t seed, WorldOptions options, Visit visit) {
  for (uint64_t i = 0; i < kWorlds; ++i) visit(random_world(seed * kWorlds + i, options));
}

// The worlds themselves obey the contract: else the other properties mean nothing.
RC_GTEST_PROP(PlanProperty, WorldsPassTheLayoutCheck, (uint64_t seed)) {
  for_worlds(seed, {}, [](const World& world) {
    const Status receiver = check_layout(world.table, world.receiver.layout, LayoutRole::kReceiver);
    if (!receiver.ok()) RC_FAIL(receiver.to_string());
    for (const OwnedWorker& source : world.sources) {
      const Status status = check_layout(world.table, source.layout, LayoutRole::kSource);
      if (!status.ok()) RC_FAIL(status.to_string());
    }
  });
}

RC_GTEST_PROP(PlanProperty, MovesEachNeededByteOnceFromItsPlace, (uint64_t seed)) {
  for_worlds(seed, {}, [](const World& world) {
    const Result<Plan> plan = world.plan();
    if (!plan.ok()) RC_FAIL(plan.status().to_string());
    const std::string fault = fault_of(world, *plan);
    if (!fault.empty()) RC_FAIL(fault);
    const Status proof = world.prove(*plan);
    if (!proof.ok()) RC_FAIL(proof.to_string());
    RC_ASSERT(plan->bytes == world.receiver.layout.piece_bytes(world.table));
  });
}

RC_GTEST_PROP(PlanProperty, NamesWhatNoSourceHolds, (uint64_t seed)) {
  for_worlds(seed, {.covered = false}, [](const World& world) {
    const Uncovered missing = uncovered(world);
    const Result<Plan> plan = world.plan();
    if (missing.bytes == 0) {
      RC_ASSERT(plan.ok());
      RC_ASSERT(fault_of(world, *plan) == "");
      return;
    }
    RC_ASSERT(plan.status().code() == Code::kNotCovered);
    RC_ASSERT(plan.status().facts().tensor == missing.first);
    const std::string counts = std::to_string(missing.bytes) + " bytes of " +
                               std::to_string(missing.tensors) + " tensor(s)";
    if (plan.status().message().find(counts) == std::string::npos) {
      RC_FAIL(plan.status().message() + " should say " + counts);
    }
  });
}

RC_GTEST_PROP(PlanProperty, DoesNotDependOnTheOrderOfPieces, (uint64_t seed, uint64_t order)) {
  for_worlds(seed, {}, [order](const World& world) {
    const Result<Plan> a = world.plan();
    const Result<Plan> b = shuffled(world, order).plan();
    RC_ASSERT(a.ok() && b.ok());
    RC_ASSERT(a->lists.size() == b->lists.size());
    for (size_t i = 0; i < a->lists.size(); ++i) {
      RC_ASSERT(a->lists[i].source == b->lists[i].source);
      RC_ASSERT(a->lists[i].runs == b->lists[i].runs);
    }
  });
}

RC_GTEST_PROP(PlanProperty, IsTheSameInEveryProcess, (uint64_t seed)) {
  const Result<Plan> a = random_world(seed).plan();
  const Result<Plan> b = random_world(seed).plan();
  RC_ASSERT(a.ok() && b.ok());
  RC_ASSERT(a->inputs == b->inputs);
  for (size_t i = 0; i < a->lists.size(); ++i) RC_ASSERT(a->lists[i].runs == b->lists[i].runs);
}

}  // namespace
}  // namespace wb::test
