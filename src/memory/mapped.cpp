#include "memory/mapped.h"

#include <dlfcn.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

#include "base/checked.h"

namespace wb {
namespace {

std::string hex(uint64_t address) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%" PRIx64, address);
  return text;
}

Status not_mapped(uint64_t address, const char* what) {
  return Status(Code::kInvalidArgument, "the memory at " + hex(address) + " is " + what);
}

// cuPointerGetAttribute of the CUDA driver API.
using PointerAttribute = int (*)(void* data, int attribute, uint64_t pointer);
constexpr int kCudaSuccess = 0;
constexpr int kAttributeMemoryType = 2;
constexpr int kAttributeIsManaged = 8;
constexpr unsigned kMemoryTypeHost = 1;

PointerAttribute loaded_cuda_driver() {
  // RTLD_NOLOAD finds a driver that something else opened, also with RTLD_LOCAL, and opens none.
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* symbol = dlsym(library, "cuPointerGetAttribute");
  // Drops only the reference that this lookup took: whoever loaded the driver keeps it.
  dlclose(library);
  return reinterpret_cast<PointerAttribute>(symbol);
}

}  // namespace

Status check_mapped(const void* base, uint64_t bytes, bool writable) {
  const auto start = reinterpret_cast<uint64_t>(base);
  if (base == nullptr) return Status(Code::kInvalidArgument, "the memory's address is null");
  if (bytes == 0) return Status(Code::kInvalidArgument, "a memory range of zero bytes");
  const auto end = checked_add(start, bytes);
  if (!end) {
    return Status(Code::kInvalidArgument,
                  std::to_string(bytes) + " bytes at " + hex(start) + " wrap around");
  }
  std::ifstream maps("/proc/self/maps");
  if (!maps) return Status(Code::kIo, "/proc/self/maps cannot be read");
  uint64_t reached = start;  // invariant: [start, reached) is mapped with the wanted rights
  for (std::string line; reached < *end && std::getline(maps, line);) {
    uint64_t low = 0;
    uint64_t high = 0;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &low, &high, rights) != 3) {
      return Status(Code::kIo, "/proc/self/maps has a line without an address range");
    }
    if (high <= reached) continue;
    if (low > reached) break;
    if (rights[0] != 'r') return not_mapped(reached, "not readable");
    if (writable && rights[1] != 'w') return not_mapped(reached, "not writable");
    reached = high;
  }
  return reached >= *end ? Status() : not_mapped(reached, "not mapped");
}

Status check_not_device(const void* base, uint64_t bytes) {
  const PointerAttribute attribute = loaded_cuda_driver();
  if (attribute == nullptr || bytes == 0) return Status();
  const auto start = reinterpret_cast<uint64_t>(base);
  for (const uint64_t address : {start, start + (bytes - 1)}) {
    unsigned type = 0;
    unsigned managed = 0;
    // A driver that does not know the address returns an error: ordinary host memory.
    if (attribute(&type, kAttributeMemoryType, address) != kCudaSuccess) continue;
    if (attribute(&managed, kAttributeIsManaged, address) != kCudaSuccess) managed = 0;
    if (type != kMemoryTypeHost || managed != 0) {
      return Status(Code::kUnsupported, "the memory at " + hex(address) + " is CUDA " +
                                            (managed != 0 ? "managed" : "device") +
                                            " memory; only host memory can be given here");
    }
  }
  return Status();
}

}  // namespace wb
