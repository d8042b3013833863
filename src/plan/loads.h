// How busy a solved draft makes everything, and what takes longest.
#pragma once

#include <vector>

#include "plan/balance.h"
#include "plan/draft.h"

namespace wb {

struct Loads {
  std::vector<LoadReport> reports;  // one per kind that is used
  Bottleneck binds = Bottleneck::kSourceEgress;
  uint64_t nanoseconds = 0;
};

Loads measure(const Draft& draft, const Cluster& cluster);

}  // namespace wb
