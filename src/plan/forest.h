// Takes the cycles out of a division: the same loads, with the fewest shares that such loads need.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/flow.h"

namespace wb {

// Shares come by (task, node), and leave so.
void make_forest(uint32_t tasks, uint32_t nodes, std::vector<FlowShare>* shares);

}  // namespace wb
