// Fleet plans of random small worlds against an oracle that executes them byte by byte.
#include "plan/fleet.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "fleet_world.h"
#include "layout/dtype.h"
#include "plan/class_map.h"
#include "plan/cut.h"
#include "plan/fleet_proof.h"

namespace wb::test {
namespace {

constexpr Policy kPolicies[] = {Policy::kDirect, Policy::kHost, Policy::kFanout, Policy::kAuto};

FleetOptions options_of(Policy policy, uint64_t cut_bytes) {
  FleetOptions options;
  options.policy = policy;
  options.cut_bytes = cut_bytes;
  return options;
}

// A world where somebody needs something: balance has nothing to say about nothing.
FleetWorld fleet_world(uint64_t seed) { return random_fleet(seed); }

RC_GTEST_PROP(FleetProperty, EveryByteOnceFromTheRightPlace, (uint64_t seed)) {
  const FleetJob job(fleet_world(seed));
  const Policy policy =
      *rc::gen::elementOf(std::vector<Policy>(std::begin(kPolicies), std::end(kPolicies)));
  const uint64_t unit = *rc::gen::element<uint64_t>(0, 1, 16, 64 << 10);
  const auto plan = plan_fleet(*job.fleet, options_of(policy, unit));
  if (!plan.ok()) RC_FAIL(plan.status().to_string());
  const auto parts = job.parts(*plan);
  if (!parts.ok()) RC_FAIL(parts.status().to_string());
  RC_ASSERT(fault_of(job, *parts) == "");
  const Status proved = prove_fleet(*job.fleet, *parts);
  if (!proved.ok()) RC_FAIL(proved.to_string());
}

RC_GTEST_PROP(FleetProperty, CountsAndClasses, (uint64_t seed)) {
  const FleetJob job(random_fleet(seed));
  const FleetCount counted = count(job);
  const auto plan = plan_fleet(*job.fleet, options_of(Policy::kDirect, 1));
  if (!plan.ok()) RC_FAIL(plan.status().to_string());
  RC_ASSERT(plan->report.needed_bytes == counted.needed);
  RC_ASSERT(plan->report.distinct_bytes == counted.distinct);
  RC_ASSERT(plan->report.stored_bytes == counted.stored);
  std::vector<std::pair<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>, uint64_t>> got;
  for (const ByteClass& c : plan->classes()) got.push_back({{c.holders, c.needers}, c.bytes});
  std::sort(got.begin(), got.end());
  RC_ASSERT(got.size() == counted.sets.size());
  for (size_t i = 0; i < got.size(); ++i) {
    RC_ASSERT(got[i].first == counted.sets[i]);
    RC_ASSERT(got[i].second == counted.bytes[i]);
  }
  uint64_t atoms = 0;
  uint64_t bytes = 0;
  for (uint32_t t = 0; t < job.world.table.size(); ++t) {
    const std::vector<Atom> of_tensor = plan->atoms_of(t);
    atoms += of_tensor.size();
    for (size_t i = 0; i < of_tensor.size(); ++i) {
      bytes += static_cast<uint64_t>(of_tensor[i].box.size()) *
               dtype_info(job.world.table[t].dtype).unit_bytes;
      for (size_t j = 0; j < i; ++j) {
        RC_ASSERT(!intersect(of_tensor[i].box, of_tensor[j].box).has_value());
      }
    }
  }
  RC_ASSERT(atoms == plan->report.atoms);
  RC_ASSERT(bytes == counted.distinct);
}

RC_GTEST_PROP(FleetProperty, WhatNobodyHoldsIsCounted, (uint64_t seed)) {
  const FleetJob job(random_fleet(seed, WorldOptions{.covered = false}));
  const FleetCount counted = count(job);
  const auto plan = plan_fleet(*job.fleet, options_of(Policy::kDirect, 1));
  RC_ASSERT(plan.ok() == (counted.absent == 0));
  if (plan.ok()) return;
  RC_ASSERT(plan.status().code() == Code::kNotCovered);
  RC_ASSERT(plan.status().message().find(std::to_string(counted.absent) + " bytes") !=
            std::string::npos);
}

void require_equal(const FleetPart& a, const FleetPart& b) {
  RC_ASSERT(a.inputs == b.inputs);
  RC_ASSERT(a.receiver == b.receiver);
  RC_ASSERT(a.lists.size() == b.lists.size());
  for (size_t i = 0; i < a.lists.size(); ++i) {
    RC_ASSERT(a.lists[i].from_peer == b.lists[i].from_peer);
    RC_ASSERT(a.lists[i].worker == b.lists[i].worker);
    RC_ASSERT(a.lists[i].stage == b.lists[i].stage);
    RC_ASSERT(a.lists[i].runs == b.lists[i].runs);
    RC_ASSERT(a.lists[i].fallbacks.size() == b.lists[i].fallbacks.size());
    for (size_t f = 0; f < a.lists[i].fallbacks.size(); ++f) {
      RC_ASSERT(a.lists[i].fallbacks[f].runs == b.lists[i].fallbacks[f].runs);
    }
  }
}

RC_GTEST_PROP(FleetProperty, TheOrderOfTheInputsDoesNotCount, (uint64_t seed)) {
  const FleetWorld world = fleet_world(seed);
  const FleetJob one(world);
  const FleetJob two(shuffled(world, seed + 1));
  RC_ASSERT(one.fleet->digest() == two.fleet->digest());
  const Policy policy =
      *rc::gen::elementOf(std::vector<Policy>(std::begin(kPolicies), std::end(kPolicies)));
  const auto a = plan_fleet(*one.fleet, options_of(policy, 1));
  const auto b = plan_fleet(*two.fleet, options_of(policy, 1));
  RC_ASSERT(a.ok());
  RC_ASSERT(b.ok());
  RC_ASSERT(a->report.inputs == b->report.inputs);
  RC_ASSERT(a->flows == b->flows);
  RC_ASSERT(a->entries == b->entries);
  for (uint32_t r = 0; r < one.fleet->receivers().size(); ++r) {
    require_equal(*make_part(*one.fleet, *a, r), *make_part(*two.fleet, *b, r));
  }
}

// Two ways to the same numbers: the balance's own account, and the hops of its exact division.
RC_GTEST_PROP(FleetProperty, TheLoadsAreTheBalancesWhenCutsFallAnywhere, (uint64_t seed)) {
  const FleetJob job(fleet_world(seed));
  const Policy policy =
      *rc::gen::elementOf(std::vector<Policy>(std::begin(kPolicies), std::end(kPolicies)));
  auto plan = plan_fleet(*job.fleet, options_of(policy, 1));
  if (!plan.ok()) RC_FAIL(plan.status().to_string());
  const auto given = balance(plan->classes(), job.fleet->cluster(), policy);
  RC_ASSERT(given.ok());
  const Division exact = divide(*plan->map, *given, 1, true);
  plan->flows = exact.flows;
  plan->entries = exact.entries;
  Balance again = *given;
  account(fleet_edges(*plan), job.fleet->cluster(), &again);
  RC_ASSERT(again.source_bytes == given->source_bytes);
  RC_ASSERT(again.receiver_in == given->receiver_in);
  RC_ASSERT(again.receiver_out == given->receiver_out);
  for (size_t i = 0; i < given->loads.size(); ++i) {
    RC_ASSERT(again.loads[i].nic_bytes == given->loads[i].nic_bytes);
    RC_ASSERT(again.loads[i].largest == given->loads[i].largest);
  }
}

TEST(Fleet, BoxesOfARangeAreItsElementsInOrder) {
  const Progression dims[] = {{3, 4, 2}, {1, 1, 1}, {0, 3, 1}, {5, 5, 3}};
  const Box box = *Box::make(dims);
  for (uint64_t begin = 0; begin <= 60; ++begin) {
    for (uint64_t end = begin; end <= 60; ++end) {
      std::vector<Box> parts;
      boxes_of_range(box, begin, end, &parts);
      uint64_t at = begin;
      EXPECT_LE(parts.size(), 5u);
      for (const Box& part : parts) {
        for (int64_t i = 0; i < part.size(); ++i, ++at) {
          int64_t rest = i;
          uint64_t place = 0;
          uint64_t scale = 1;
          for (int d = 3; d >= 0; --d) {
            const Progression& p = part.dim(d);
            place += scale *
                     static_cast<uint64_t>(box.dim(d).index_of(p.start + rest % p.count * p.step));
            rest /= p.count;
            scale *= static_cast<uint64_t>(box.dim(d).count);
          }
          ASSERT_EQ(place, at);
        }
      }
      ASSERT_EQ(at, end);
    }
  }
}

}  // namespace
}  // namespace wb::test
