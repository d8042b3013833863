// A file of its own, so that no caller sees the definitions and pairs malloc with delete.
#include "count_new.h"

#include <cstdlib>
#include <new>

namespace {
thread_local int64_t allocations = 0;
}

int64_t allocations_of_this_thread() { return allocations; }

void* operator new(size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
