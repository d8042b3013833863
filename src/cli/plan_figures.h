// What a fleet's plan costs, for people and programs: measured on every receiver's part, each of
// which is proved.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/plan_job.h"
#include "plan/simulate.h"

namespace wb::cli {

// What one receiver reads from one worker.
struct EdgeFigures {
  bool from_peer = false;
  uint32_t worker = 0;
  uint64_t bytes = 0;
  uint64_t runs = 0;
  uint64_t rows = 0;   // contiguous stretches of bytes
  uint64_t reads = 0;  // on the wire, after shaping
  uint64_t smallest = 0;
  uint64_t largest = 0;
};

struct ReceiverFigures {
  uint32_t receiver = 0;
  uint64_t needed = 0;
  uint64_t bytes = 0;   // that its part reads; the proof holds only when that is what it needs
  uint64_t memory = 0;  // its weights, the staging ring and its read lists
  ShapeSummary shape;
  std::vector<EdgeFigures> edges;
};

struct Spread {
  uint64_t least = 0;
  uint64_t most = 0;
  double mean = 0;
};

// One kind of link: the loads of those that carry it.
struct LinkFigures {
  Bottleneck kind = Bottleneck::kSourceEgress;
  std::vector<std::string> names;
  std::vector<uint64_t> bytes;
  Spread spread;
  uint64_t largest = 0;  // on the link that takes longest
  uint64_t bound = 0;
  double seconds = 0;
};

struct PlanFigures {
  std::vector<ReceiverFigures> receivers;
  std::vector<Transfer> transfers;
  std::array<uint64_t, 64> reads_of_size{};  // by the logarithm (base 2) of their bytes
  std::array<uint64_t, 64> bytes_of_size{};
  std::vector<LinkFigures> links;
  uint64_t from_sources = 0;  // bytes that leave the trainers
  uint64_t from_peers = 0;
  uint64_t padding = 0;        // of all receivers: bytes set to zero at each pull
  uint64_t unmapped = 0;       // ... not in the checkpoint, left as they are
  uint64_t computed = 0;       // ... that the engine derives after a pull
  uint64_t source_memory = 0;  // of the largest source
  bool together = false;       // whether the parts were proved together, too
};

// Of receivers [first, end). With `prove`, each part is proved (kUnproven is the error of a proof).
Result<PlanFigures> measure(const PlanJob& job, uint32_t first, uint32_t end, bool prove);

Spread spread_of(const std::vector<uint64_t>& values);
// "the trainers' NICs, out": what binds, for a sentence.
std::string_view bottleneck_name(Bottleneck kind);

}  // namespace wb::cli
