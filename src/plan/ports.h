// Ports: the ways a worker's bytes can take; and what carries them: one direction of a NIC (a whole
// NIC where it is half duplex), or the inside of a host. Several ports may share a carrier.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/cluster.h"
#include "plan/flow.h"

namespace wb {

class Ports {
 public:
  explicit Ports(const Cluster& cluster);  // checked: seats inside the cluster, no speed of zero

  uint32_t source_out(uint32_t source) const { return source; }
  uint32_t receiver_in(uint32_t receiver) const { return sources_ + receiver; }
  uint32_t receiver_out(uint32_t receiver) const { return sources_ + receivers_ + receiver; }
  uint32_t source_inside(uint32_t source) const { return sources_ + 2 * receivers_ + source; }
  uint32_t receiver_inside(uint32_t receiver) const {
    return 2 * (sources_ + receivers_) + receiver;
  }
  uint32_t size() const { return static_cast<uint32_t>(carrier_.size()); }
  // The source or receiver that a port belongs to.
  uint32_t worker(uint32_t port) const;

  uint32_t carrier(uint32_t port) const { return carrier_[port]; }
  uint32_t out_carrier(uint32_t nic) const { return nics_[nic].out; }
  uint32_t in_carrier(uint32_t nic) const { return nics_[nic].in; }
  uint32_t carriers() const { return static_cast<uint32_t>(speeds_.size()); }
  uint64_t speed(uint32_t carrier) const { return speeds_[carrier]; }

  uint32_t sources() const { return sources_; }
  uint32_t receivers() const { return receivers_; }
  uint32_t nics() const { return static_cast<uint32_t>(nics_.size()); }

  // Whether some carrier has several ports.
  bool shared() const { return shared_; }

 private:
  struct NicCarriers {
    uint32_t out = 0;
    uint32_t in = 0;
  };
  uint32_t sources_;
  uint32_t receivers_;
  std::vector<NicCarriers> nics_;  // in the order of hosts and their NICs
  std::vector<uint64_t> speeds_;   // by carrier
  std::vector<uint32_t> carrier_;  // by port
  bool shared_ = false;
};

// Bytes to be divided over ports, each of which carries every byte `weight` times.
class PortTasks {
 public:
  struct Share {
    uint32_t port = 0;
    uint64_t bytes = 0;  // > 0; without the weight
  };

  explicit PortTasks(const Ports& ports);

  // Adds a task and returns its number. The ports ascend, and are not empty.
  uint32_t add(uint64_t bytes, uint64_t weight, std::span<const uint32_t> ports);
  // Bytes that a port carries whatever is decided.
  void add_fixed(uint32_t port, uint64_t bytes) { fixed_[port] += bytes; }

  // First over carriers; then, on each of them, over the ports that share it.
  void solve();

  // After solve.
  std::span<const Share> shares(uint32_t task) const {
    return {shares_.data() + share_begin_[task], shares_.data() + share_begin_[task + 1]};
  }
  uint64_t load(uint32_t port) const { return load_[port]; }
  const Ratio& level(uint32_t carrier) const { return level_[carrier]; }

 private:
  struct Task {
    uint64_t bytes = 0;
    uint64_t weight = 1;
  };
  FlowDivision over_carriers();
  std::vector<FlowShare> over_ports(const FlowDivision& division) const;
  void keep(const std::vector<FlowShare>& shares);
  void keep_task(uint32_t task, std::span<const FlowShare> shares);

  const Ports& ports_;
  std::vector<Task> tasks_;
  std::vector<uint32_t> port_begin_ = {0};
  std::vector<uint32_t> task_ports_;
  std::vector<uint64_t> fixed_;  // by port
  std::vector<uint32_t> share_begin_;
  std::vector<Share> shares_;
  std::vector<uint64_t> load_;  // by port, with the weight
  std::vector<Ratio> level_;    // by carrier
};

}  // namespace wb
