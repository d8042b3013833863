// Stands in for libcuda.so.1: one range of memory is of a kind that the test sets.
#include <cstdint>

namespace {
uint64_t start = 0;
uint64_t length = 0;
unsigned type = 0;
unsigned managed = 0;
}  // namespace

extern "C" __attribute__((visibility("default"))) void fake_cuda_set(uint64_t range_start,
                                                                     uint64_t range_length,
                                                                     unsigned memory_type,
                                                                     unsigned is_managed) {
  start = range_start;
  length = range_length;
  type = memory_type;
  managed = is_managed;
}

extern "C" __attribute__((visibility("default"))) int cuPointerGetAttribute(void* data,
                                                                            int attribute,
                                                                            uint64_t pointer) {
  if (pointer - start >= length) return 1;  // CUDA_ERROR_INVALID_VALUE
  *static_cast<unsigned*>(data) = attribute == 2 ? type : managed;
  return 0;
}
