// What the machine looks like from this process: for reports and for placing work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace wb {

struct HostFacts {
  std::string host_name;
  std::string boot_id;  // differs after every boot: two processes with the same one share a kernel
  uint32_t packages = 0;
  uint32_t numa_nodes = 0;
  uint32_t cores = 0;        // physical
  uint32_t usable_cpus = 0;  // hardware threads that this process may run on
};

// Loads the topology with hwloc once per process.
Result<HostFacts> host_facts();

// The NUMA node that holds the page of `address`; nothing where the system does not tell.
std::optional<uint32_t> numa_node_of(const void* address);

}  // namespace wb
