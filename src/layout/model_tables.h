// The tables of the built-in models, folded: written at build time by tools/make-model-tables from
// models/*.json.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "layout/dtype.h"

namespace wb {

struct NumberRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};

// The tensors named by `pattern` with its first "{}" replaced by each layer and its second by each
// expert. A pattern without them has ranges of one number.
struct TensorRow {
  std::string_view pattern;
  DType dtype = DType::kBF16;
  std::array<int64_t, 2> shape{};  // the second is zero for a vector
  NumberRange layers;
  NumberRange experts;
};

struct ModelRows {
  std::string_view name;
  std::string_view config;  // the text of config.json
  std::span<const TensorRow> rows;
};

std::span<const ModelRows> model_rows();

}  // namespace wb
