#include <dlfcn.h>

#include <string>

#include "base/symbols.h"
#include "cli/doctor/gather.h"

namespace wb::cli::doctor {
namespace {

// The driver's interface, as far as it is asked: no header of CUDA's is needed.
constexpr int kSuccess = 0;
constexpr int kDmabufSupported = 124;  // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED

struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*driver_version)(int*) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*bus_id)(char*, int, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
  int (*error_string)(int, const char**) = nullptr;
};

std::string error_text(const Driver& driver, int code) {
  const char* text = nullptr;
  driver.error_string(code, &text);
  return text == nullptr ? "error " + std::to_string(code) : text;
}

// CUDA writes "00000000:1B:00.0" or "0000:1B:00.0"; the kernel "0000:1b:00.0".
std::string kernel_bus_id(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  const size_t colon = text.find(':');
  return colon != std::string::npos && colon > 4 ? text.substr(colon - 4) : text;
}

GpuFacts gpu_facts(const Driver& driver, int device) {
  GpuFacts gpu;
  char text[256] = {};
  if (driver.name(text, sizeof text - 1, device) == kSuccess) gpu.name = text;
  char bus_id[64] = {};
  if (driver.bus_id(bus_id, sizeof bus_id - 1, device) == kSuccess) {
    gpu.bus_id = kernel_bus_id(bus_id);
  }
  int dmabuf = 0;
  gpu.dmabuf = driver.attribute(&dmabuf, kDmabufSupported, device) == kSuccess && dmabuf != 0;
  return gpu;
}

}  // namespace

CudaFacts gather_cuda() {
  CudaFacts cuda;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    cuda.error = "there is no CUDA driver (libcuda.so.1)";
    return cuda;
  }
  Driver driver;
  Symbols symbols(library);
  symbols.get(driver.init, "cuInit");
  symbols.get(driver.driver_version, "cuDriverGetVersion");
  symbols.get(driver.device_count, "cuDeviceGetCount");
  symbols.get(driver.device, "cuDeviceGet");
  symbols.get(driver.name, "cuDeviceGetName");
  symbols.get(driver.bus_id, "cuDeviceGetPCIBusId");
  symbols.get(driver.attribute, "cuDeviceGetAttribute");
  symbols.get(driver.error_string, "cuGetErrorString");
  if (!symbols.missing().empty()) {
    cuda.error = "libcuda.so.1 is no CUDA driver of version 6 or later";
    return cuda;
  }
  if (const int code = driver.init(0); code != kSuccess) {
    cuda.error = "the CUDA driver does not start: " + error_text(driver, code);
    return cuda;
  }
  int version = 0;
  if (driver.driver_version(&version) == kSuccess) {
    cuda.driver = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }
  int count = 0;
  if (const int code = driver.device_count(&count); code != kSuccess) {
    cuda.error = "the CUDA driver shows no devices: " + error_text(driver, code);
    return cuda;
  }
  for (int i = 0; i < count; ++i) {
    int device = 0;
    if (driver.device(&device, i) == kSuccess) cuda.gpus.push_back(gpu_facts(driver, device));
  }
  return cuda;
}

}  // namespace wb::cli::doctor
