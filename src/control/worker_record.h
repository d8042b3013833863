// The value of a worker's key in the store.
#pragma once

#include <string>

#include "control/membership.h"

namespace wb {

std::string format_worker(const WorkerRecord& record);
Result<WorkerRecord> parse_worker(const KeyValue& item);

}  // namespace wb
