// The plan of all receivers of one job: who reads which bytes from whom, balanced over the sources
// and, with sharing, over the receivers. A pure function of its inputs: the same inputs give the
// same plan, byte by byte, in every process, in whatever order they are listed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "layout/tensor_table.h"
#include "plan/balance.h"
#include "plan/classes.h"
#include "plan/cluster.h"
#include "plan/plan.h"

namespace wb {

struct FleetOptions {
  Policy policy = Policy::kAuto;
  uint64_t cut_bytes =
      64u << 10;  // ranges begin and end at multiples of it where that costs < 1e-4
  uint64_t membership_revision = 0;
};

// What a fleet plan says about itself, for people and for tests.
struct FleetReport {
  uint64_t needed_bytes = 0;    // sum over receivers of what their pieces need
  uint64_t distinct_bytes = 0;  // checkpoint bytes that some receiver needs
  uint64_t stored_bytes = 0;    // sum over sources of what they hold
  uint64_t atoms = 0;
  uint64_t cuts = 0;  // ranges beyond one per (class, copy)
  Digest inputs;      // of layouts, options, cost constants, cluster and membership revision
};

}  // namespace wb
