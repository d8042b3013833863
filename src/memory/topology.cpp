#include "memory/topology.h"

#include <hwloc.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>

namespace wb {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, DestroyTopology>;

Topology load() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology(raw);
  if (hwloc_topology_load(raw) != 0) return nullptr;
  return topology;
}

// Null when hwloc cannot read this machine.
hwloc_topology* topology() {
  static const Topology loaded = load();
  return loaded.get();
}

uint32_t count(hwloc_obj_type_t type) {
  const int objects = hwloc_get_nbobjs_by_type(topology(), type);
  return objects > 0 ? static_cast<uint32_t>(objects) : 0;
}

}  // namespace

Result<HostFacts> host_facts() {
  if (topology() == nullptr) {
    return Status(Code::kUnsupported, "hwloc cannot read the topology of this machine");
  }
  HostFacts facts;
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return errno_status(errno, "gethostname");
  facts.host_name = name;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  if (!std::getline(boot, facts.boot_id)) {
    return Status(Code::kUnsupported, "/proc/sys/kernel/random/boot_id cannot be read");
  }
  facts.packages = count(HWLOC_OBJ_PACKAGE);
  facts.numa_nodes = count(HWLOC_OBJ_NUMANODE);
  facts.cores = count(HWLOC_OBJ_CORE);
  facts.usable_cpus = count(HWLOC_OBJ_PU);
  return facts;
}

std::optional<uint32_t> numa_node_of(const void* address) {
  if (topology() == nullptr) return std::nullopt;
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> nodes(hwloc_bitmap_alloc(),
                                                                            &hwloc_bitmap_free);
  if (nodes == nullptr ||
      hwloc_get_area_memlocation(topology(), address, 1, nodes.get(), HWLOC_MEMBIND_BYNODESET) !=
          0 ||
      hwloc_bitmap_weight(nodes.get()) != 1) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(hwloc_bitmap_first(nodes.get()));
}

}  // namespace wb
