#include "allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<uint64_t> allocations = 0;
thread_local bool counted = false;
}  // namespace

void* operator new(size_t bytes) {
  if (counted) ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace wb::testing {

void count_allocations(bool on) { counted = on; }
uint64_t counted_allocations() { return allocations; }

}  // namespace wb::testing
