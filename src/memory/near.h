// Which RDMA devices are near a buffer. Pure functions of the machine's topology.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memory/topology.h"

namespace wb {

// Best first.
enum class Nearness : uint8_t {
  kSwitch,       // GPU memory: the device is below the same PCIe switch
  kRootComplex,  // GPU memory: below the same root complex
  kNode,         // on the buffer's NUMA node
  kPackage,      // on another node of the same processor package
  kRemote,       // on another package: every byte crosses the link between them
  kUnknown,      // the system does not tell where the device or the buffer is
};
std::string_view nearness_name(Nearness nearness);  // "same NUMA node"

// How many of a buffer's pages were found on a node.
struct NodePages {
  uint32_t node = 0;
  uint64_t pages = 0;
  bool operator==(const NodePages&) const = default;
};

// Where a buffer is: on a GPU, or on NUMA nodes; neither: unknown.
struct BufferPlace {
  std::string gpu;  // PCI bus id
  std::vector<NodePages> nodes;
};

struct RankedNic {
  size_t device = 0;                       // index into the names given
  Nearness nearness = Nearness::kUnknown;  // to most of the buffer
  uint32_t group = 0;  // devices of one group are equally near; 0 is the nearest
  std::string reason;  // "mlx5_3: same NUMA node (1) as all of the buffer"
};

// All of `devices`, nearest first. Of equally near ones the order is that of their names, begun at
// number `turn` of the group: processes of one host that give their rank do not all begin with the
// same one.
std::vector<RankedNic> rank_nics(const Topology& topology, std::span<const std::string> devices,
                                 const BufferPlace& buffer, uint32_t turn);

}  // namespace wb
