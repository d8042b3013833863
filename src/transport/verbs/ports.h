// Which ports to use, how many queue pairs, and which port of a source each one talks to: pure
// functions over descriptions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/verbs/wire.h"

namespace wb::verbs {

struct PortInfo {
  std::string device;
  uint8_t port = 1;
  bool active = false;
  bool reads = true;  // the device can do RC READs
  uint32_t gbps = 0;
  int numa_node = -1;
  LinkLayer layer = LinkLayer::kEthernet;

  std::string name() const { return device + ":" + std::to_string(port); }
};

struct PortChoice {
  size_t index = 0;  // into the ports
  std::string reason;
};

// Ports that the options name, in that order; else every active port that is as fast as the
// fastest, on NUMA node `near` where any of them is (-1: anywhere). kUnsupported lists what was
// found.
Result<std::vector<PortChoice>> choose_ports(std::span<const PortInfo> ports,
                                             std::span<const std::string> wanted, int near);

// Gbit/s of a port from the codes of its attributes; 0 when unknown.
uint32_t gbps_of(uint8_t width, uint8_t speed);

// Data queue pairs per pair of NICs. One queue pair reads at up to about 200 Gbit/s on ConnectX;
// two hide each other's stalls from 100 Gbit/s on.
uint32_t queue_pairs_for(uint32_t gbps);

struct RailPair {
  size_t reader = 0;
  size_t source = 0;
  std::string reason;
};

// One partner for each rail of the reader: of the same kind of network and address family, whose
// GID shares the longest prefix (the same subnet); equals are taken in turn. Rails without any
// partner are left out; kUnavailable when that is all of them.
Result<std::vector<RailPair>> pair_rails(std::span<const PathEnd> reader,
                                         std::span<const PathEnd> source);

}  // namespace wb::verbs
