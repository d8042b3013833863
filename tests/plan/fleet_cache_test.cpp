// Plans of a new membership: byte for byte those made without a cache, and what did not change is
// found there.
#include "plan/fleet_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "fleet_world.h"
#include "models.h"
#include "plan/plan_file.h"

namespace wb::test {
namespace {

FleetOptions options_of(uint64_t revision, Policy policy) {
  FleetOptions options;
  options.policy = policy;
  options.cut_bytes = 1;
  options.membership_revision = revision;
  return options;
}

std::vector<std::byte> planned(const FleetJob& job, const FleetOptions& options,
                               FleetCache* cache) {
  const FleetPlan plan = *plan_fleet(*job.fleet, options, cache);
  std::vector<FleetPart> parts;
  for (uint32_t r = 0; r < job.fleet->receivers().size(); ++r) {
    parts.push_back(*make_part(*job.fleet, plan, r, cache));
  }
  return *write_plan_file(*job.fleet, parts);
}

template <typename T>
void remove_at(std::vector<T>* all, size_t i) {
  all->erase(all->begin() + static_cast<ptrdiff_t>(i));
}

RC_GTEST_PROP(FleetCache, APlanWithACacheIsThePlanWithoutOne, (uint64_t seed)) {
  std::mt19937_64 rng(seed);
  FleetWorld world = random_fleet(seed);
  FleetCache cache;
  for (uint64_t revision = 0; revision < 4; ++revision) {
    const FleetJob job(world);
    const FleetOptions options = options_of(revision, static_cast<Policy>(seed % 3));
    RC_ASSERT(planned(job, options, &cache) == planned(job, options, nullptr));
    cache.forget_unused();
    if (rng() % 2 == 0 && world.receivers.size() > 1) {
      const size_t gone = rng() % world.receivers.size();
      remove_at(&world.receivers, gone);
      remove_at(&world.cluster.receivers, gone);
    } else {
      world.receivers.push_back(world.receivers.front());
      world.receivers.back().name = "joined-" + std::to_string(revision);
      world.cluster.receivers.push_back(world.cluster.receivers.front());
    }
  }
}

// Qwen3-0.6B, two stages of two replicas each, to four engines of two.
FleetWorld job_of_model() {
  static const Model model = qwen3_0_6b();
  FleetWorld world;
  world.table = model.table;
  for (uint32_t s = 0; s < 8; ++s) {
    world.sources.push_back(rank_of(model, "megatron:tp=2,pp=2,dp=2", s));
    world.sources.back().name = "trainer-" + std::to_string(s);
    world.cluster.sources.push_back({0, s});
  }
  for (uint32_t r = 0; r < 8; ++r) {
    world.receivers.push_back(rank_of(model, "vllm:tp=2,engines=4", r));
    world.receivers.back().name = "rollout-" + std::to_string(r);
    world.cluster.receivers.push_back({1, r});
  }
  const Nic nic{50'000'000'000, true, 0};
  world.cluster.hosts = {{"a", std::vector<Nic>(8, nic), 1'000'000'000, 0},
                         {"b", std::vector<Nic>(9, nic), 1'000'000'000, 0}};
  return world;
}

class Revisions : public ::testing::Test {
 protected:
  void SetUp() override {
    planned(FleetJob(world_), options_of(0, Policy::kDirect), &cache_);
    cache_.forget_unused();
    first_ = cache_.counts();
    cache_.reset_counts();
  }
  // The plan of the next revision; checks that it is the one made without a cache.
  FleetCache::Counts next() {
    const FleetJob job(world_);
    const FleetOptions options = options_of(1, Policy::kDirect);
    const auto with = planned(job, options, &cache_);
    EXPECT_EQ(with, planned(job, options, nullptr));
    return cache_.counts();
  }

  FleetWorld world_ = job_of_model();
  FleetCache cache_;
  FleetCache::Counts first_;
};

TEST_F(Revisions, NothingChanged) {
  const FleetCache::Counts counts = next();
  EXPECT_EQ(counts.refinements, 0u);
  EXPECT_EQ(counts.lowered, 0u);
  EXPECT_EQ(counts.refinements_reused, first_.refinements);
  EXPECT_GT(counts.lowered_reused, 0u);
}

TEST_F(Revisions, ASourceIsLost) {
  // A replica of the second stage: the first stage's tensors are cut as before.
  remove_at(&world_.sources, 7);
  remove_at(&world_.cluster.sources, 7);
  const FleetCache::Counts counts = next();
  EXPECT_GT(counts.refinements_reused, 0u);
  EXPECT_GT(counts.refinements, 0u);
  EXPECT_GT(counts.lowered_reused, counts.lowered);
}

TEST_F(Revisions, AReceiverJoins) {
  OwnedWorker joined = world_.receivers[3];
  joined.name = "rollout-8";
  world_.receivers.push_back(joined);
  world_.cluster.receivers.push_back({1, 8});
  const FleetCache::Counts counts = next();
  // All its classes have one needer more, but reads that were planned are found again.
  EXPECT_GT(counts.lowered_reused, 0u);
}

TEST_F(Revisions, AReceiverIsGone) {
  remove_at(&world_.receivers, 2);
  remove_at(&world_.cluster.receivers, 2);
  EXPECT_GT(next().lowered_reused, 0u);
}

TEST_F(Revisions, OneLayoutChanged) {
  // One receiver places its buffers elsewhere: its own reads are made anew, nobody else's.
  for (Placement& place : world_.receivers[5].placement) place.offset += 512;
  world_.receivers[5].region_bytes[0] += 512;
  const FleetCache::Counts counts = next();
  EXPECT_EQ(counts.refinements, 0u);
  EXPECT_GT(counts.lowered, 0u);
  EXPECT_GT(counts.lowered_reused, 4 * counts.lowered);
}

}  // namespace
}  // namespace wb::test
