// Where this process runs, and where its memory lies to its NICs.
#pragma once

#include <span>
#include <string>

#include "memory/near.h"

namespace wb::verbs {

// The NUMA node of all processors that this process may run on, which is where its memory is unless
// it asked for another; -1 when they are of several, or the system does not tell.
int own_numa_node();

// What is so where most of the pages lie on no node of a NIC; empty: nothing, or the system does
// not tell.
std::string far_from_nics(std::span<const NodePages> pages, std::span<const int> nic_nodes);

}  // namespace wb::verbs
