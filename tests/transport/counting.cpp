// A file of its own: a compiler that sees these inlined finds malloc and delete mismatched.
#include "counting.h"

#include <sys/uio.h>

#include <cstdlib>
#include <new>

namespace wb::test {

std::atomic<uint64_t> allocations = 0;
std::atomic<uint64_t> readv_calls = 0;

}  // namespace wb::test

extern "C" ssize_t __real_process_vm_readv(pid_t pid, const iovec* local, unsigned long local_count,
                                           const iovec* remote, unsigned long remote_count,
                                           unsigned long flags);
extern "C" ssize_t __wrap_process_vm_readv(pid_t pid, const iovec* local, unsigned long local_count,
                                           const iovec* remote, unsigned long remote_count,
                                           unsigned long flags) {
  ++wb::test::readv_calls;
  return __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
}

void* operator new(size_t size) {
  ++wb::test::allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
