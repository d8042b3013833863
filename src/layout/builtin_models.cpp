#include "layout/builtin_models.h"

#include <string>

#include "layout/model_tables.h"
#include "layout/quote.h"

namespace wb {
namespace {

std::string numbered(std::string_view pattern, uint32_t layer, uint32_t expert) {
  std::string name(pattern);
  for (const uint32_t number : {layer, expert}) {
    const size_t at = name.find("{}");
    if (at != std::string::npos) name.replace(at, 2, std::to_string(number));
  }
  return name;
}

void unfold(const TensorRow& row, std::vector<TensorInfo>* tensors) {
  std::vector<int64_t> shape{row.shape[0]};
  if (row.shape[1] != 0) shape.push_back(row.shape[1]);
  for (uint32_t layer = row.layers.begin; layer < row.layers.end; ++layer) {
    for (uint32_t expert = row.experts.begin; expert < row.experts.end; ++expert) {
      tensors->push_back({numbered(row.pattern, layer, expert), row.dtype, shape});
    }
  }
}

}  // namespace

std::vector<std::string_view> builtin_model_names() {
  std::vector<std::string_view> names;
  for (const ModelRows& model : model_rows()) names.push_back(model.name);
  return names;
}

Result<Model> builtin_model(std::string_view name) {
  std::string known;
  for (const ModelRows& rows : model_rows()) {
    if (rows.name != name) {
      known += (known.empty() ? "" : ", ") + std::string(rows.name);
      continue;
    }
    Model model;
    WB_ASSIGN_OR_RETURN(model.config, parse_model_config(rows.config));
    std::vector<TensorInfo> tensors;
    for (const TensorRow& row : rows.rows) unfold(row, &tensors);
    WB_ASSIGN_OR_RETURN(model.table, TensorTable::make(std::move(tensors)));
    return model;
  }
  return Status(Code::kNotFound,
                "no built-in model is named " + quote(name) + "; there are " + known);
}

}  // namespace wb
