#include "plan/shape.h"

#include <algorithm>
#include <array>

namespace wb {
namespace {

using Wide = unsigned __int128;

constexpr uint64_t kForever = ~uint64_t{0};

// Costs and sizes beyond 2^64 are the same as for ever.
uint64_t capped(Wide value) { return value > kForever ? kForever : static_cast<uint64_t>(value); }

uint64_t magnitude(int64_t pitch) {
  return pitch < 0 ? ~static_cast<uint64_t>(pitch) + 1 : static_cast<uint64_t>(pitch);
}

Wide ceil_div(Wide a, Wide b) { return (a + b - 1) / b; }

// Moving through the ring costs the wire or the copy out of it, whichever is slower: they overlap.
Wide through_ring(Wide reads, Wide fetched, const Run& run, const TransportCosts& costs) {
  const Wide wire = reads * costs.read_ps + fetched * costs.byte_ps;
  const Wide rows = run.count;
  const Wide copy = rows * costs.copy_row_ps + rows * run.length * costs.copy_byte_ps;
  return std::max(wire, copy) + costs.read_ps;
}

}  // namespace

const TransportCosts* find_transport_costs(std::string_view name) {
  static constexpr std::array<TransportCosts, 5> kAll = {{
      // One memcpy per row: nothing to gain from a ring.
      {"local-mapped", 12'000, 90, 12'000, 90, 0, 0, 4u << 20, 200, false},
      // One iovec per row, 512 rows a call.
      {"local-vm", 130'000, 110, 12'000, 90, 0, 0, 4u << 20, 200, false},
      {"ucx", 900'000, 20, 8'000, 100, 0, 0, 4u << 20, 200, false},
      {"verbs", 100'000, 20, 8'000, 100, 15'000, 16, 4u << 20, 200, false},
      // Into GPU memory: the scatter is a two-dimensional copy on the device.
      {"verbs-cuda", 100'000, 20, 200, 2, 15'000, 16, 4u << 20, 2, false},
  }};
  const auto it = std::find_if(kAll.begin(), kAll.end(),
                               [&](const TransportCosts& costs) { return costs.name == name; });
  return it == kAll.end() ? nullptr : &*it;
}

ShapedRun shape_run(const Run& run, const TransportCosts& costs) {
  const Wide rows = run.count;
  const Wide bytes = rows * run.length;
  ShapedRun best;
  best.reads = run.count;
  best.cost_ps = capped(rows * costs.read_ps + bytes * costs.byte_ps);
  if (run.count < 2 || run.length == 0) return best;
  const auto offer = [&](Shape shape, Wide reads, Wide staged, Wide waste, Wide cost) {
    if (capped(cost) < best.cost_ps) {
      best = {shape, capped(reads), capped(staged), capped(waste), capped(cost)};
    }
  };
  const uint64_t pitch = magnitude(run.remote_pitch);
  if (run.remote_pitch > 0 && pitch == run.length) {
    if (costs.max_sges > 1) {
      const Wide reads = ceil_div(rows, costs.max_sges);
      offer(Shape::kScatter, reads, 0, 0,
            reads * costs.read_ps + rows * costs.sge_ps + bytes * costs.byte_ps);
    }
    if (run.length <= costs.staging_bytes / 2) {
      const Wide reads = ceil_div(rows, costs.staging_bytes / run.length);
      offer(Shape::kStaged, reads, bytes, 0, through_ring(reads, bytes, run, costs));
    }
    return best;
  }
  if (pitch > run.length && pitch <= costs.staging_bytes / 2) {
    const Wide reads = ceil_div(rows, costs.staging_bytes / pitch);
    // Each read ends with its last row, not with the gap behind it.
    const Wide fetched = (rows - reads) * pitch + reads * run.length;
    offer(Shape::kCovering, reads, fetched, fetched - bytes,
          through_ring(reads, fetched, run, costs));
  }
  if (costs.can_relay && pitch > run.length) {
    const bool dense = run.local_pitch > 0 && magnitude(run.local_pitch) == run.length;
    const Wide reads = ceil_div(bytes, costs.staging_bytes);
    const Wide relay = bytes * costs.relay_byte_ps;
    offer(Shape::kRelaid, reads, dense ? 0 : bytes, 0,
          relay + (dense ? reads * costs.read_ps + bytes * costs.byte_ps
                         : through_ring(reads, bytes, run, costs)));
  }
  return best;
}

void ShapeSummary::add(const Run& run, const ShapedRun& shaped) {
  rows += run.count;
  reads += shaped.reads;
  waste += shaped.waste;
  staged += shaped.staged;
  const uint64_t bytes = run.length * run.count;
  if (shaped.shape == Shape::kRelaid) relaid += bytes;
  const bool in_rows = shaped.shape == Shape::kRows;
  const uint64_t mean = (bytes + shaped.waste) / std::max<uint64_t>(shaped.reads, 1);
  const uint64_t size = in_rows ? run.length : mean;
  smallest = smallest == 0 ? size : std::min(smallest, size);
  largest = std::max(largest, size);
}

}  // namespace wb
