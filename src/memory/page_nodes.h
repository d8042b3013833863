// On which NUMA nodes the pages of a buffer lie.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "memory/near.h"

namespace wb {

// Asks the kernel about at most 256 pages, evenly spread; by node, ascending. Pages that nobody has
// touched yet are on no node and not counted: an untouched buffer gives an empty list. Where the
// call is forbidden (containers without CAP_SYS_NICE), /proc/self/numa_maps answers for the whole
// mapping. kUnsupported on a kernel without NUMA.
Result<std::vector<NodePages>> buffer_nodes(const void* base, uint64_t bytes);

// The same answer from the text of numa_maps, for the mapping that holds `address`.
Result<std::vector<NodePages>> nodes_from_numa_maps(std::string_view text, uint64_t address);

}  // namespace wb
