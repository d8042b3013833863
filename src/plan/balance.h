// Divides the bytes of each class over those that send them, so that the busiest one is as little
// busy as any division could make it. Exact, integral, deterministic; integers only.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/classes.h"
#include "plan/cluster.h"

namespace wb {

enum class Policy : uint8_t {
  kDirect,  // each receiver reads all that it needs from the trainers
  kHost,    // each byte enters a receiver host once, over all its NICs, then moves inside the host
  kFanout,  // each byte leaves the trainers once; the first receivers pass it on
  kAuto,    // the one of these that lowers what binds; the result names it
};
std::string_view policy_name(Policy policy);

// `bytes` of a class come from, or go first to, worker `worker`.
struct Amount {
  uint32_t worker = 0;
  uint64_t bytes = 0;  // > 0
};

// One copy of a class that leaves the trainers. Both lists sum to the class's bytes; since any two
// divisions of the same bytes can be laid over each other, they are independent here, and the cut
// lays them over [0, bytes) in the order given.
struct Copy {
  std::vector<Amount> from;       // sources
  std::vector<Amount> first;      // receivers that read it from the sources, each its own range
  std::vector<uint32_t> members;  // all receivers served by this copy, ascending; includes `first`
};

struct ClassDivision {
  std::vector<Copy> copies;  // members are disjoint and together the needers of the class
};

enum class Bottleneck : uint8_t {
  kSourceEgress,
  kReceiverIngress,
  kReceiverEgress,
  kInsideHost,
};

// Load of one kind of resource. Times are load / speed, compared as exact fractions.
struct LoadReport {
  Bottleneck kind = Bottleneck::kSourceEgress;
  std::vector<uint64_t> nic_bytes;  // by NIC, in the order of hosts and their NICs
  uint64_t largest = 0;             // bytes on the NIC that takes longest
  uint64_t bound = 0;               // what no division can beat on that NIC's speed, same unit
  uint32_t nic = 0;                 // that NIC
};

struct Balance {
  Policy policy = Policy::kDirect;               // never kAuto
  std::vector<ClassDivision> classes;            // parallel to the classes
  std::vector<uint64_t> source_bytes;            // sent by each source
  std::vector<uint64_t> receiver_in;             // entering each receiver over its NIC
  std::vector<uint64_t> receiver_out;            // passed on by each receiver over its NIC
  std::vector<LoadReport> loads;                 // one per kind of resource that is used
  Bottleneck binds = Bottleneck::kSourceEgress;  // the kind that takes longest
  uint64_t nanoseconds = 0;                      // how long, at the speeds of the cluster
};

// kInvalidArgument: a class without holder or needer, an index outside the cluster, a speed of
// zero, sums over 2^62.
Result<Balance> balance(std::span<const ByteClass> classes, const Cluster& cluster, Policy policy);

}  // namespace wb
