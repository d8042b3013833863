#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <string.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "cli/doctor/gather.h"

// The header makes it a macro around the exported function.
#undef ibv_query_port

namespace wb::cli::doctor {
namespace {

struct Library {
  decltype(&ibv_get_device_list) get_device_list = nullptr;
  decltype(&ibv_free_device_list) free_device_list = nullptr;
  decltype(&ibv_get_device_name) get_device_name = nullptr;
  decltype(&ibv_open_device) open_device = nullptr;
  decltype(&ibv_close_device) close_device = nullptr;
  decltype(&ibv_query_device) query_device = nullptr;
  decltype(&ibv_query_port) query_port = nullptr;
};

template <typename F>
bool resolve(void* handle, F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  return function != nullptr;
}

std::string open_library(const std::string& name, Library* library) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return "libibverbs cannot be used: " + std::string(dlerror());
  const bool whole = resolve(handle, library->get_device_list, "ibv_get_device_list") &&
                     resolve(handle, library->free_device_list, "ibv_free_device_list") &&
                     resolve(handle, library->get_device_name, "ibv_get_device_name") &&
                     resolve(handle, library->open_device, "ibv_open_device") &&
                     resolve(handle, library->close_device, "ibv_close_device") &&
                     resolve(handle, library->query_device, "ibv_query_device") &&
                     resolve(handle, library->query_port, "ibv_query_port");
  return whole ? "" : name + " is not rdma-core's";
}

uint32_t mtu_bytes(ibv_mtu code) {
  return code >= IBV_MTU_256 && code <= IBV_MTU_4096 ? 128u << code : 0;
}

uint32_t positive(int value) { return static_cast<uint32_t>(std::max(value, 0)); }

void ask(const Library& library, ibv_context* context, DeviceFacts* device) {
  ibv_device_attr attributes{};
  if (library.query_device(context, &attributes) == 0) {
    device->caps = DeviceCaps{.reads_as_reader = positive(attributes.max_qp_init_rd_atom),
                              .reads_as_source = positive(attributes.max_qp_rd_atom),
                              .max_regions = positive(attributes.max_mr),
                              .max_region_bytes = attributes.max_mr_size,
                              .max_scatter = positive(attributes.max_sge_rd)};
  }
  for (PortFacts& port : device->ports) {
    // The exported function writes the front part of the struct only, which has all that is asked.
    ibv_port_attr found{};
    if (library.query_port(context, static_cast<uint8_t>(port.number),
                           reinterpret_cast<_compat_ibv_port_attr*>(&found)) == 0) {
      port.active_mtu = mtu_bytes(found.active_mtu);
    }
  }
}

}  // namespace

void add_device_caps(const std::string& name, RdmaFacts* rdma) {
  Library library;
  rdma->library_error = open_library(name, &library);
  if (!rdma->library_error.empty()) return;
  int count = 0;
  ibv_device** list = library.get_device_list(&count);
  for (DeviceFacts& device : rdma->devices) {
    ibv_device* found = nullptr;
    for (int i = 0; list != nullptr && i < count; ++i) {
      if (device.name == library.get_device_name(list[i])) found = list[i];
    }
    device.in_library = found != nullptr;
    // Without its file the reason is the file, which is said already.
    if (found == nullptr || device.node_error != 0 || device.node.empty()) continue;
    ibv_context* context = library.open_device(found);
    if (context == nullptr) {
      device.open_error = strerror(errno);
      continue;
    }
    ask(library, context, &device);
    library.close_device(context);
  }
  if (list != nullptr) library.free_device_list(list);
}

}  // namespace wb::cli::doctor
