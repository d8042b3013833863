// Counts calls of operator new, for tests of what must not allocate.
#pragma once

#include <cstdint>

namespace wb::testing {

void count_allocations(bool on);  // of the calling thread
uint64_t counted_allocations();

}  // namespace wb::testing
