// Sharding rules: what rank R of a framework holds, in checkpoint coordinates. One small text file
// per framework (src/layout/rules/*.rules, compiled in); the format is described in
// docs/layouts-and-rules.md.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "layout/model_config.h"
#include "layout/side.h"
#include "layout/spec.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"

namespace wb {

// Buffers carry the framework's own parameter names, dtypes and local shapes. Errors:
// kInvalidArgument for a rank outside the world and for what the framework itself refuses (in its
// words: which numbers do not divide); kUnsupported for a family without rules; kMismatch when the
// table is not the configuration's (a tensor is missing, unknown to the rules, or of another
// shape): a tensor is never left out in silence.
Result<WorkerLayout> lay_out(const Spec& spec, const ModelConfig& config, const TensorTable& table,
                             uint32_t rank);

// The layouts of all ranks of `spec`, each distinct one made once: equal to lay_out of every rank.
Result<Side> lay_out_all(const Spec& spec, const ModelConfig& config, const TensorTable& table);

}  // namespace wb
