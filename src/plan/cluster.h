// Where workers are: hosts, their NICs, and who shares one. Integers only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wb {

struct Nic {
  uint64_t bytes_per_second = 0;  // in each direction; > 0
  bool full_duplex = true;        // false: both directions share bytes_per_second
  uint32_t numa = 0;
};

// One machine. Workers on one host pass bytes on without a NIC, at inside_bytes_per_second each.
struct Host {
  std::string name;
  std::vector<Nic> nics;
  uint64_t inside_bytes_per_second = 0;  // NVLink or shared memory, per worker and direction; > 0
  uint32_t domain = 0;  // hosts of one NVLink domain reach each other like one host; 0: none
};

// The place of one worker: a NIC of a host. Several workers may share one NIC.
struct Seat {
  uint32_t host = 0;
  uint32_t nic = 0;
};

// Seats are parallel to the workers of a plan.
struct Cluster {
  std::vector<Host> hosts;
  std::vector<Seat> sources;
  std::vector<Seat> receivers;
};

}  // namespace wb
