// Where this process runs.
#pragma once

namespace wb::verbs {

// The NUMA node of all processors that this process may run on, which is where its memory is unless
// it asked for another; -1 when they are of several, or the system does not tell.
int own_numa_node();

}  // namespace wb::verbs
