// The data that src/cli/page/page.js draws.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/plan_figures.h"
#include "cli/plan_job.h"
#include "plan/simulate.h"

namespace wb::cli {

// `measured` covers all receivers. `tensors` are shown in addition to those that are chosen.
// kNotFound names one that is not in the table.
Result<nlohmann::json> plan_page(const PlanJob& job, const PlanFigures& measured,
                                 const Simulation& simulated,
                                 const std::vector<std::string>& tensors);

// One way of doing an update.
struct Way {
  std::string key, title, text;
  Simulation simulation = {};
  double bound = 0;          // what binds, in seconds; 0: not known
  double trainer_stall = 0;  // of the trainer that stands still longest, in seconds
  double trainer_gpu_seconds = 0;
  double rollout_gpu_seconds = 0;
};
nlohmann::json simulation_page(const PlanJob& job, const std::vector<Way>& ways);

// "0-7, 16, 24-31"; what is long and regular "0-248 in steps of 8"; what is long and not, is cut.
std::string ranks_text(const std::vector<uint32_t>& ranks);

// A utilisation over time as a line of block characters, for terminals.
std::string spark_line(const std::vector<double>& parts, size_t width);

}  // namespace wb::cli
