// A pull's report as JSON, the form in which ranks tell the demo of it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "session/receiver.h"

namespace wb::cli {

nlohmann::json to_json(const PullReport& report);
const char* step_name(PullStep step);

}  // namespace wb::cli
