// Counts what the calling thread allocates with operator new. The library's own allocations are
// included: it takes operator new from the program.
#pragma once

#include <cstdint>

// Since the thread began.
int64_t allocations_of_this_thread();
