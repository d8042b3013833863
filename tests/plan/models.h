// Real models by their shapes: tables and configurations, laid out by the sharding rules, with all
// buffers of a worker in one region as an allocator would place them.
#pragma once

#include <string>
#include <vector>

#include "layout/side.h"
#include "layout/tensor_table.h"
#include "plan/fleet.h"
#include "rules_models.h"
#include "world.h"

namespace wb::test {

using testing::Model;

Model qwen3_0_6b();
Model deepseek_v3(int64_t layers = 61);

// Rank `rank` of `spec`. Aborts the test's process on an error: the specs are fixed.
OwnedWorker rank_of(const Model& model, const std::string& spec, uint32_t rank);
// All ranks of `trainer` as sources, rank `rank` of `rollout` as the receiver.
World world_of(const Model& model, const std::string& trainer, const std::string& rollout,
               uint32_t rank);

// The sides of a job, packed as an allocator would.
struct ModelJob {
  Model model;
  Side sides[2];                         // trainer, rollout
  std::vector<PackedBuffers> packed[2];  // by family
  std::vector<FleetWorker> workers[2];
  Cluster cluster;

  ModelJob(Model m, const std::string& trainer, const std::string& rollout);
  Fleet fleet() const;  // borrows the sides
};

}  // namespace wb::test
