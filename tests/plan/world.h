// Small random worlds for the planner's tests: a table, a receiver and sources, with every kind of
// layout that the contract allows.
#pragma once

#include <cstdint>
#include <list>
#include <random>
#include <string>
#include <vector>

#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "plan/cluster.h"
#include "plan/plan.h"

namespace wb::test {

// A worker that owns what a PlanWorker borrows.
struct OwnedWorker {
  std::string name;
  WorkerLayout layout;
  std::vector<Placement> placement;
  std::vector<uint64_t> region_bytes;

  PlanWorker view() const { return PlanWorker{name, &layout, placement, region_bytes}; }
  // Adds a buffer of `bytes` bytes at the end of `region` (made when it is the next one).
  uint32_t add_buffer(uint64_t bytes, uint32_t region, uint64_t gap = 0);
};

struct World {
  TensorTable table;
  OwnedWorker receiver;
  std::vector<OwnedWorker> sources;
  std::vector<OwnedWorker> fellows;  // other receivers

  std::vector<PlanWorker> source_views() const;
  Result<Plan> plan() const;
  Status prove(const Plan& plan) const;
};

// Rows [begin, end) of a tensor's first dimension, all of the others, dense at `offset`.
Piece dense_rows(const TensorTable& table, uint32_t tensor, int64_t begin, int64_t end,
                 uint32_t buffer, int64_t offset);
// `box` of a tensor, dense and row-major at `offset`.
Piece dense_box(const TensorTable& table, uint32_t tensor, const Box& box, uint32_t buffer,
                int64_t offset);

struct WorldOptions {
  bool covered = true;  // each tensor is held as a whole; else parts may have no holder
};

// The same seed gives the same world.
World random_world(uint64_t seed, WorldOptions options = {});

// Several receivers and a cluster; who sits where is up to the seed. Workers may share layouts,
// hosts and NICs.
struct FleetWorld {
  TensorTable table;
  std::vector<OwnedWorker> sources;
  std::vector<OwnedWorker> receivers;
  Cluster cluster;  // with the seats of both
};
FleetWorld random_fleet(uint64_t seed, WorldOptions options = {});

// Workers, hosts and pieces in another order; the same otherwise.
FleetWorld shuffled(const FleetWorld& world, uint64_t seed);

// The world with the pieces of all layouts in another order.
World shuffled(const World& world, uint64_t seed);

}  // namespace wb::test
