// The table of a checkpoint, sorted into the places that the family's rules give its tensors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "layout/model_config.h"
#include "layout/rules_text.h"
#include "layout/tensor_table.h"

namespace wb {

// The tensors that one TensorRule names.
struct IndexedTensors {
  const TensorRule* rule = nullptr;
  // (layer, expert) -> index into the table; zero where the name has no such number.
  std::unordered_map<uint64_t, uint32_t> at;

  std::optional<uint32_t> find(int64_t layer, int64_t expert) const;
};

// Proved by index_table: every tensor of the table belongs to one rule and has the shape that the
// rule gives; every tensor that the rules require is there.
struct TableIndex {
  std::vector<IndexedTensors> tensors;  // in the order of the rules (of the modules)
  std::map<int64_t, bool> layers;       // layer -> whether it has experts
  int64_t mtp_layers = 0;               // layers behind those of the configuration

  const IndexedTensors* find(std::string_view key) const;
};

// `families` must outlive the index. kUnsupported for a family without rules; kMismatch names the
// tensor that is missing, unknown or of another shape.
Result<TableIndex> index_table(const RuleBook& families, const ModelConfig& config,
                               const TensorTable& table);

// The name with its numbers in the place of the placeholders.
std::string numbered_name(std::string_view pattern, int64_t layer, int64_t expert);

}  // namespace wb
