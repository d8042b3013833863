// Where this machine's memory, RDMA devices and GPUs stand to each other: facts, as hwloc finds
// them. What follows from them for a buffer is near.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace wb {

struct NumaNode {
  uint32_t index = 0;    // the system's number
  uint32_t package = 0;  // processor package (socket) it belongs to
  uint64_t bytes = 0;
};

// Where a PCI device is plugged in.
struct PciPlace {
  std::string bus_id;           // "0000:1b:00.0"
  std::vector<uint32_t> nodes;  // NUMA nodes at its root complex, ascending; empty: unknown
  std::vector<uint32_t>
      bridges;  // from the host bridge down; the numbers mean nothing but equality
};

struct TopologyNic {
  std::string name;                  // RDMA device: "mlx5_0"
  std::vector<std::string> netdevs;  // network devices of the same PCI function: "ens1f0np0"
  PciPlace place;
};

struct TopologyGpu {
  PciPlace place;
  uint16_t vendor = 0;  // PCI vendor: 0x10de
};

struct Topology {
  std::vector<NumaNode> nodes;    // by index
  std::vector<TopologyNic> nics;  // by name: mlx5_2 before mlx5_10
  std::vector<TopologyGpu> gpus;  // by bus id

  const NumaNode* node(uint32_t index) const;
  const TopologyNic* nic(std::string_view name) const;
  const TopologyGpu* gpu(std::string_view bus_id) const;
};

// True when name `a` comes before `b`, numbers in them compared as numbers.
bool name_before(const std::string& a, const std::string& b);

// This machine. libhwloc is opened at run time: kUnsupported, with the cure, where it is missing.
// Takes milliseconds (it reads /sys); call once and keep the answer.
Result<Topology> local_topology();
// A machine described by hwloc's XML ("lstopo machine.xml"), as a whole document.
Result<Topology> topology_from_xml(const std::string& xml);

}  // namespace wb
