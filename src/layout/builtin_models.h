// Published models by name: configuration and tensor table, without any weights.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "layout/model_config.h"
#include "layout/tensor_table.h"

namespace wb {

struct Model {
  ModelConfig config;
  TensorTable table;
};

// "qwen3-0.6b", "qwen3-30b-a3b", "qwen3-235b-a22b", "llama-3.1-405b", "deepseek-v3", "kimi-k2": the
// checkpoint as published, in bf16 (the routers' correction biases in fp32). DeepSeek-V3 and
// Kimi-K2 were published in fp8 with scales; trainers hold and publish bf16.
std::vector<std::string_view> builtin_model_names();

// kNotFound lists the names that there are.
Result<Model> builtin_model(std::string_view name);

}  // namespace wb
