// A cluster as resources of a flow network: which links a byte takes from one worker to another.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/status.h"
#include "plan/cluster.h"
#include "plan/fabric.h"
#include "plan/flow_network.h"
#include "plan/simulate.h"

namespace wb {

struct Place {
  bool receiver = false;  // else a source
  uint32_t index = 0;
};

class Topology {
 public:
  // kInvalidArgument names the seat or host that is not there, or the speed of zero. Adds the links
  // to `network`. Borrows all three.
  static Result<Topology> make(const Cluster& cluster, const Fabric& fabric, FlowNetwork* network);

  const Seat& seat(Place worker) const {
    return (worker.receiver ? cluster_->receivers : cluster_->sources)[worker.index];
  }
  // Equal exactly for workers that reach each other without a NIC.
  uint64_t unit(Place worker) const { return unit(seat(worker).host); }
  uint64_t unit(uint32_t host) const {
    const uint32_t domain = cluster_->hosts[host].domain;
    return domain == 0 ? host : uint64_t{1} << 32 | domain;
  }

  // Links of one NIC, of one worker inside its host, and of the switches between two hosts.
  struct Pair {
    uint32_t out = 0;
    uint32_t in = 0;
  };
  Pair nic(const Seat& seat) const { return nics_.at({seat.host, seat.nic}); }
  Pair inside(Place worker) const {
    return (worker.receiver ? inside_receivers_ : inside_sources_)[worker.index];
  }
  std::vector<uint32_t> between(uint32_t from_host, uint32_t to_host) const;

  // From worker to worker.
  std::vector<ResourceUse> path(Place from, Place to) const;

 private:
  Topology(const Cluster& cluster, const Fabric& fabric) : cluster_(&cluster), fabric_(&fabric) {}
  Status check() const;
  void add_nics(FlowNetwork* network);
  std::vector<uint32_t> way_up(uint32_t host) const;

  const Cluster* cluster_;
  const Fabric* fabric_;
  std::map<std::pair<uint32_t, uint32_t>, Pair> nics_;
  std::vector<Pair> inside_sources_, inside_receivers_;
  std::vector<Pair> uplinks_;  // by switch; only those with a speed are links
};

}  // namespace wb
