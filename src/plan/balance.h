// Divides the bytes of each class over those that send and receive them, so that the busiest NIC is
// as little busy as any division could make it. Exact, integral, deterministic; integers only.
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
  kFanout,  // each byte leaves the trainers' hosts once; the first receivers pass it on
  kAuto,    // the first of these that no other beats by more than 1 %; the result names it
};
std::string_view policy_name(Policy policy);

// `bytes` of a class come from, or go first to, worker `worker`.
struct Amount {
  uint32_t worker = 0;
  uint64_t bytes = 0;  // > 0
};

// How a byte that enters several receiver hosts enters one of them.
struct Entry {
  std::vector<Amount> at;         // members that it enters by, over their NICs
  std::vector<uint32_t> members;  // needers on that host, ascending; the others read from `at`
};

// One copy of a class that leaves the trainers. Every list of amounts sums to the class's bytes and
// is laid over [0, bytes) in the order given; where two lists of a copy change at one byte, the cut
// must keep that so (round positions, not lengths). `from` is independent of all other lists,
// since any two divisions of the same bytes can be laid over each other.
//
// Without entries, who is not `first` at a byte reads it from who is. With entries (fanout over
// several hosts), a byte x goes
//   from(x) -> first(x) -> inside the host -> sender(x) -> at(x) of each other host -> inside it,
// where first(x) is at(x) of the sender's own host, and mostly the sender itself. So it enters each
// host once, and nothing goes back: there are no cycles.
struct Copy {
  std::vector<Amount> from;       // sources
  std::vector<Amount> first;      // receivers that read it from the sources, each its own ranges
  std::vector<uint32_t> members;  // all receivers served by this copy, ascending; includes `first`
  std::vector<Amount> senders;    // receivers that send it to the other hosts
  std::vector<Entry> entries;     // one per host; their members are disjoint and together `members`
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
//
// NIC kinds: by NIC, in the order of hosts and their NICs; what a NIC carries in this direction
// (in both, if it is half duplex), whoever of its workers moves it, and 0 where none of this kind
// does. kInsideHost: by worker, sources before receivers, the busier direction of each.
struct LoadReport {
  Bottleneck kind = Bottleneck::kSourceEgress;
  std::vector<uint64_t> nic_bytes;
  uint64_t largest = 0;  // bytes where it takes longest
  uint64_t bound = 0;    // fewer bytes there would take longer elsewhere, whatever the division
  uint32_t nic = 0;      // where: an index of nic_bytes
};

struct Balance {
  Policy policy = Policy::kDirect;               // never kAuto
  std::vector<ClassDivision> classes;            // parallel to the classes
  std::vector<uint64_t> source_bytes;            // sent by each source, over its NIC or inside
  std::vector<uint64_t> receiver_in;             // entering each receiver over its NIC
  std::vector<uint64_t> receiver_out;            // passed on by each receiver over its NIC
  std::vector<LoadReport> loads;                 // one per kind of resource that is used
  Bottleneck binds = Bottleneck::kSourceEgress;  // the kind that takes longest
  uint64_t nanoseconds = 0;                      // how long, at the speeds of the cluster
};

// Receivers with a holder of a class on their own host (or NVLink domain) read it there, without
// a NIC, under every policy.
//
// The division of a class does not depend on the order in which classes are listed.
//
// kInvalidArgument: a class without bytes, holder or needer, lists that do not ascend, an index
// outside the cluster, a speed of zero, needed bytes or speeds that sum to 2^62 or more.
Result<Balance> balance(std::span<const ByteClass> classes, const Cluster& cluster, Policy policy);

}  // namespace wb
