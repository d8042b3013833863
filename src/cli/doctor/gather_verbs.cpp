#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>

#include "base/status.h"
#include "cli/doctor/gather.h"
#include "transport/verbs/api.h"
#include "transport/verbs/library.h"

namespace wb::cli::doctor {
namespace {

uint32_t mtu_bytes(ibv_mtu code) {
  return code >= IBV_MTU_256 && code <= IBV_MTU_4096 ? 128u << code : 0;
}

uint32_t positive(int value) { return static_cast<uint32_t>(std::max(value, 0)); }

void ask(const verbs::Verbs& verbs, ibv_context* context, DeviceFacts* device) {
  ibv_device_attr attributes{};
  if (verbs.query_device(context, &attributes) == 0) {
    device->caps = DeviceCaps{.reads_as_reader = positive(attributes.max_qp_init_rd_atom),
                              .reads_as_source = positive(attributes.max_qp_rd_atom),
                              .max_regions = positive(attributes.max_mr),
                              .max_region_bytes = attributes.max_mr_size,
                              .max_scatter = positive(attributes.max_sge_rd)};
  }
  for (PortFacts& port : device->ports) {
    ibv_port_attr found{};
    if (verbs.query_port(context, static_cast<uint8_t>(port.number), &found) == 0) {
      port.active_mtu = mtu_bytes(found.active_mtu);
    }
  }
}

}  // namespace

void add_device_caps(const verbs::Verbs& verbs, RdmaFacts* rdma) {
  int count = 0;
  ibv_device** list = verbs.get_device_list(&count);
  for (DeviceFacts& device : rdma->devices) {
    ibv_device* found = nullptr;
    for (int i = 0; list != nullptr && i < count; ++i) {
      if (device.name == list[i]->name) found = list[i];
    }
    device.in_library = found != nullptr;
    // Without its file the reason is the file, which is said already.
    if (found == nullptr || device.node_error != 0 || device.node.empty()) continue;
    ibv_context* context = verbs.open_device(found);
    if (context == nullptr) {
      device.open_error = error_text(errno);
      continue;
    }
    ask(verbs, context, &device);
    verbs.close_device(context);
  }
  if (list != nullptr) verbs.free_device_list(list);
}

void gather_verbs(const std::string& library, RdmaFacts* rdma) {
  const auto verbs = verbs::open_library(library);
  if (verbs.ok()) {
    add_device_caps(**verbs, rdma);
  } else {
    rdma->library_error = verbs.status().message();
  }
}

}  // namespace wb::cli::doctor
