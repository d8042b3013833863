// What MODEL names on the command line: a configuration and a tensor table, from wherever.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"
#include "layout/builtin_models.h"

namespace wb {

// A file {"config": {...}, "tensors": {NAME: {"dtype": "BF16", "shape": [...]}, ...}}, where config
// is a config.json. Untrusted: at most 256 MiB, nothing twice, no member that is not known.
// kBadData names the tensor or member at fault.
Result<Model> parse_model_table(std::string_view json);

// A built-in model by its name; else a folder with config.json and safetensors files, or a tensor
// table file (a name that ends with ".json").
Result<Model> open_model(const std::string& model);

}  // namespace wb
