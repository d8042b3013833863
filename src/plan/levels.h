// The real work of divide(): one connected problem whose tasks have different options.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/flow.h"

namespace wb {

// Solves the part of `problem` made of `tasks` and `nodes`, both ascending; the nodes are all that
// these tasks may use. Adds shares by (task, node), not yet a forest, and sets level of each node.
void divide_connected(const FlowProblem& problem, std::span<const uint32_t> tasks,
                      std::span<const uint32_t> nodes, FlowDivision* division);

}  // namespace wb
