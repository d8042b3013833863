// What the program does per read: counted where it leaves the program's own code.
#pragma once

#include <atomic>
#include <cstdint>

namespace wb::test {

extern std::atomic<uint64_t> allocations;  // calls of operator new
extern std::atomic<uint64_t> readv_calls;  // calls of process_vm_readv; needs the linker's --wrap

}  // namespace wb::test
