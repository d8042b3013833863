// What lies between hosts: switches, and how much fits through their uplinks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wb {

inline constexpr uint32_t kNoSwitch = UINT32_MAX;

// A switch reaches its parent, or, without one, the core that joins all, over an uplink.
struct Switch {
  std::string name;
  uint32_t parent = kNoSwitch;
  uint64_t uplink_bytes_per_second = 0;  // in each direction; 0: never in the way
};

// Switches form trees: no cycles. An empty fabric is one switch that never blocks.
struct Fabric {
  std::vector<Switch> switches;
  std::vector<uint32_t> switch_of_host;  // parallel to Cluster::hosts, or empty: all at the core
  uint64_t latency_ns = 0;               // from the start of a transfer to its first byte
};

}  // namespace wb
