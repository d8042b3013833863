// Model configurations and the tables of their checkpoints, for tests.
#pragma once

#include <string>
#include <vector>

#include "layout/model_config.h"
#include "layout/tensor_table.h"

namespace wb::testing {

struct Model {
  ModelConfig config;
  TensorTable table;
};

// The checkpoint of a configuration, with all optional biases when `biases`. Families of the Llama
// kind, DeepSeek-V3 and BERT. Shapes and names as transformers writes them.
std::vector<TensorInfo> checkpoint_tensors(const ModelConfig& config, bool biases = false);
Model make_model(const ModelConfig& config, bool biases = false);

// Small, with uneven numbers.
ModelConfig tiny_llama();
ModelConfig tiny_qwen3_moe();
ModelConfig tiny_deepseek();
ModelConfig tiny_bert();

// True sizes.
ModelConfig qwen3_0_6b();
ModelConfig deepseek_v3();
ModelConfig minilm();

}  // namespace wb::testing
