// Random clusters and classes for the tests of balance().
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "plan/balance.h"

namespace wb::test {

struct BalanceWorld {
  Cluster cluster;
  std::vector<ByteClass> classes;
};

// What is common in a world; the rest is drawn.
struct WorldKind {
  bool half_duplex = false;    // some NICs
  bool equal_speeds = true;    // of all NICs
  bool shared_nics = false;    // several workers of one side on one NIC
  bool mixed_hosts = false;    // trainers and receivers on the same hosts
  bool domains = false;        // some hosts in NVLink domains
  uint64_t most_bytes = 1000;  // of a class
};

WorldKind random_kind(std::mt19937_64& rng);
BalanceWorld random_world(std::mt19937_64& rng, const WorldKind& kind);

// One host: `workers` workers of one side, each on a NIC of its own.
Host host_with(uint32_t nics, uint64_t speed, bool full_duplex = true);

}  // namespace wb::test
