// How the bytes of a run are fetched, when its rows are small: one read per row is one way of many.
// Pure integers: cost constants are part of a plan's inputs.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plan/read_list.h"

namespace wb {

// What a transport's reads cost. Times in picoseconds, so that per-byte costs are integers.
struct TransportCosts {
  std::string_view name = "verbs";
  uint64_t read_ps = 250'000;        // one more read on the wire, post and completion included
  uint64_t byte_ps = 20;             // one byte on the wire (20 ps: 400 Gb/s)
  uint64_t copy_row_ps = 8'000;      // one more row of a local scatter out of the staging ring
  uint64_t copy_byte_ps = 100;       // one byte of it
  uint64_t sge_ps = 30'000;          // one more scatter entry of a read
  uint32_t max_sges = 16;            // scatter entries of one read; 0: no scatter-gather
  uint64_t staging_bytes = 4 << 20;  // largest read into the staging ring
  uint64_t relay_byte_ps = 200;      // one byte of a relaid snapshot, at the source
  bool can_relay = false;            // the publisher can serve a relaid snapshot
};
// "local-mapped", "local-vm", "ucx", "verbs". Null for another name.
const TransportCosts* find_transport_costs(std::string_view name);

enum class Shape : uint8_t {
  kRows,      // one read per row, straight into place
  kScatter,   // rows contiguous at the source: one read for up to max_sges rows
  kStaged,    // rows contiguous at the source: large reads into the ring, then a local scatter
  kCovering,  // rows apart at the source: reads that also fetch what lies between, then a scatter
  kRelaid,    // rows apart at the source: from a snapshot that the source lays out in our order
};

struct ShapedRun {
  Shape shape = Shape::kRows;
  uint64_t reads = 0;    // on the wire
  uint64_t staged = 0;   // bytes that go through the ring
  uint64_t waste = 0;    // bytes fetched and thrown away
  uint64_t cost_ps = 0;  // by the model
  bool operator==(const ShapedRun&) const = default;
};

// The cheapest way for one run; of equally cheap ones the first of the list above.
ShapedRun shape_run(const Run& run, const TransportCosts& costs);

// Sums over runs.
struct ShapeSummary {
  uint64_t rows = 0;      // reads if nothing were shaped
  uint64_t reads = 0;     // after shaping
  uint64_t staged = 0;    // bytes through the ring
  uint64_t waste = 0;     // bytes fetched and thrown away
  uint64_t relaid = 0;    // bytes from relaid snapshots
  uint64_t smallest = 0;  // bytes of the smallest and largest read on the wire
  uint64_t largest = 0;
  bool operator==(const ShapeSummary&) const = default;
  void add(const Run& run, const ShapedRun& shaped);
};

}  // namespace wb
