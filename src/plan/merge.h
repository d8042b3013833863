// Joins runs that belong together, also across tensors and buffers.
#pragma once

#include <vector>

#include "plan/read_list.h"

namespace wb {

// Joins runs that continue each other on both sides and rows of equal length at equal distances.
// The bytes moved stay the same. Sorted afterwards by remote, then by local address. No two runs
// write the same byte.
void merge_runs(std::vector<Run>* runs);

}  // namespace wb
