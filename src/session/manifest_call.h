// A worker's manifest, from the worker itself.
#pragma once

#include <string>

#include "base/deadline.h"
#include "base/status.h"
#include "control/manifest.h"
#include "control/membership.h"
#include "layout/tensor_table.h"

namespace wb {

// kUnavailable when the worker serves another manifest than its record in the store names.
Result<Manifest> fetch_manifest(const WorkerRecord& record, const std::string& token,
                                const TensorTable& table, Deadline deadline);

}  // namespace wb
