// Real models by their shapes: tables and configurations, laid out by the sharding rules, with all
// buffers of a worker in one region as an allocator would place them.
#pragma once

#include <string>

#include "layout/model_config.h"
#include "layout/tensor_table.h"
#include "world.h"

namespace wb::test {

struct Model {
  ModelConfig config;
  TensorTable table;
};

Model qwen3_0_6b();
Model deepseek_v3(int64_t layers = 61);

// Rank `rank` of `spec`. Aborts the test's process on an error: the specs are fixed.
OwnedWorker rank_of(const Model& model, const std::string& spec, uint32_t rank);
// All ranks of `trainer` as sources, rank `rank` of `rollout` as the receiver.
World world_of(const Model& model, const std::string& trainer, const std::string& rollout,
               uint32_t rank);

}  // namespace wb::test
