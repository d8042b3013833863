// libibverbs, opened at run time.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "transport/verbs/api.h"

namespace wb::verbs {

// Opened once per process and name, and never closed (providers leave state behind). kUnsupported
// says what is missing.
Result<std::shared_ptr<const Verbs>> open_library(const std::string& name);

}  // namespace wb::verbs
