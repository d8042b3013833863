// The named cuts of rule files: how one of a worker's own parameters is made of checkpoint tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "layout/model_config.h"
#include "layout/rules_builder.h"
#include "layout/rules_stand.h"
#include "layout/rules_text.h"

namespace wb {

struct CutRequest {
  std::string own;  // name of the parameter
  // Indices into the table: for each source of the rule its tensors, one, or one per expert that
  // the worker holds.
  std::vector<std::vector<uint32_t>> sources;
  RankGroup group;
  int64_t multiple = 1;
};

// Adds the parameter to the layout; nothing where this rank holds no part of it. kInvalidArgument
// where the framework refuses the division.
Status apply_cut(CutKind cut, const CutRequest& request, const ModelConfig& config,
                 LayoutBuilder* builder);

}  // namespace wb
