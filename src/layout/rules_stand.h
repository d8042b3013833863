// Where a rank stands: its place in each group of ranks, its layers and its experts.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "layout/model_config.h"
#include "layout/rules_text.h"
#include "layout/spec.h"

namespace wb {

struct RankGroup {
  int64_t parts = 1;
  int64_t index = 0;
  auto operator<=>(const RankGroup&) const = default;
};

struct LocalLayer {
  int64_t layer = 0;   // of the checkpoint
  int64_t local = 0;   // of the worker's own count
  std::string prefix;  // of the worker's own names ("vp_stages.1."), or nothing
  bool mtp = false;
  auto operator<=>(const LocalLayer&) const = default;
};

struct Stand {
  RankGroup tp;
  RankGroup etp;  // tensor parallel inside an expert
  RankGroup shards;
  bool first = false;  // holds what stands before the layers
  bool last = false;   // and behind
  std::string first_prefix;
  std::string last_prefix;
  std::vector<LocalLayer> layers;  // ascending
  int64_t expert_first = 0;
  int64_t expert_count = 0;

  RankGroup group(CutGroup which) const;
  auto operator<=>(const Stand&) const = default;
};

// `config` is completed, `rank` is inside the world. kInvalidArgument in the framework's words for
// what it refuses whatever the rank.
Result<Stand> stand_of(const Spec& spec, const ModelConfig& config, int64_t mtp_layers,
                       uint32_t rank);

}  // namespace wb
