// An update played on a described cluster: the real plan, and the same update done by gather and
// broadcast. Estimates for people; see plan/flow_network.h for the model.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/classes.h"
#include "plan/cluster.h"
#include "plan/fabric.h"

namespace wb {

// What one receiver reads from one worker. The transfers of a receiver are given in the order in
// which it reads.
struct Transfer {
  uint32_t to = 0;
  bool from_peer = false;  // `from` is a receiver, else a source
  uint32_t from = 0;
  uint32_t stage = 0;        // a peer passes on what it has itself by transfers of lower stages
  uint64_t bytes = 0;        // over the wire
  uint64_t overhead_ps = 0;  // at the receiver, whatever the wire's speed: reads, scatter
};

struct SimulationOptions {
  uint32_t at_once = 0;   // workers that a receiver reads from at the same time, in order; 0: all
  uint32_t chunks = 16;   // into which what is passed on is divided
  uint32_t buckets = 32;  // into which gather and broadcast divide an update
  uint32_t samples = 240;
};

enum class Link : uint8_t {
  kTrainerOut,
  kTrainerIn,
  kRolloutIn,
  kRolloutOut,
  kInside,   // NVLink or shared memory
  kUplink,   // of switches
  kReading,  // the receivers' own work for reads
};
inline constexpr size_t kLinks = 7;
std::string_view link_name(Link link);

struct Usage {
  Link link = Link::kTrainerOut;
  double capacity = 0;       // of all links of the kind, per second
  std::vector<double> part;  // in use, of the capacity, over equal parts of the time
};

struct Simulation {
  double seconds = 0;
  std::vector<double> receivers;     // when each has all
  std::vector<double> from_sources;  // of these: when its last byte from a source arrived
  std::vector<double> sources;       // when the last byte of each was read; 0: none was
  std::vector<Usage> usage;          // of the kinds of links that there are
};

// kInvalidArgument: an index outside the cluster, peers that wait for each other.
Result<Simulation> simulate_plan(const Cluster& cluster, const Fabric& fabric,
                                 std::span<const Transfer> transfers,
                                 const SimulationOptions& options);

// Gather and broadcast, as well as it can be done: the source with the lowest index of each group
// gathers what the class's first holder of the group has and it does not, bucket by bucket, and
// broadcasts every byte to all receivers, while it gathers the next bucket. A broadcast is a chain
// over the hosts, fully pipelined, over all NICs of a host at once, with its workers served inside.
// `group_of` is parallel to the sources; a class belongs to the group of its first holder.
Result<Simulation> simulate_broadcast(const Cluster& cluster, const Fabric& fabric,
                                      std::span<const ByteClass> classes,
                                      std::span<const uint32_t> group_of,
                                      const SimulationOptions& options);

}  // namespace wb
