// Findings for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/doctor/check.h"

namespace wb::cli::doctor {

// One line each, the cure on a line of its own, the counts last.
std::string report_text(const Findings& findings);

// {"verdict": the worst, "kernel", "findings": [...], "devices": [...], "gpus": [...],
//  "numa_nodes": [...], "ucx": {...}}
nlohmann::json report_json(const MachineFacts& facts, const Findings& findings);

}  // namespace wb::cli::doctor
