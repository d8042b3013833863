// Parts of the start-up reports that publishers and receivers have in common.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "memory/allocation.h"
#include "session/job_internal.h"

namespace wb {

// Store, host, job name and the transports that this process cannot run.
nlohmann::json job_report(const JobInternal& job);
// Kind and bytes of each allocation.
nlohmann::json memory_report(const std::vector<std::shared_ptr<Allocation>>& memory);

// Never fails: bytes that are not UTF-8 (names come from outside) are replaced.
std::string dump_report(const nlohmann::json& report);

}  // namespace wb
