#include "plan/plan.h"

#include <algorithm>

#include "base/checked.h"
#include "layout/dtype.h"
#include "plan/lower.h"
#include "plan/merge.h"
#include "plan/overlap.h"

namespace wb {
namespace {

// Part of Plan::inputs: raise it when the same inputs give another plan than before.
constexpr uint64_t kPlannerVersion = 1;

// Twice an offset still fits in int64: the planner computes one row beyond a run's last.
constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 62;

Status check_placement(const PlanWorker& worker) {
  const auto fail = [&](const std::string& what) {
    return Status(Code::kInvalidArgument, "worker " + worker.name + ": " + what)
        .with_peer(worker.name);
  };
  const auto& buffers = worker.layout->buffers;
  if (worker.placement.size() != buffers.size()) {
    return fail(std::to_string(worker.placement.size()) + " placements for " +
                std::to_string(buffers.size()) + " buffers");
  }
  for (const uint64_t bytes : worker.region_bytes) {
    if (bytes > kMaxRegionBytes) return fail("a region of more than 2^62 bytes");
  }
  for (size_t b = 0; b < buffers.size(); ++b) {
    const Placement& place = worker.placement[b];
    if (place.region >= worker.region_bytes.size()) {
      return fail("buffer " + buffers[b].name + " lies in region " + std::to_string(place.region) +
                  " of " + std::to_string(worker.region_bytes.size()));
    }
    if (!range_inside(place.offset, buffers[b].bytes, worker.region_bytes[place.region])) {
      return fail("buffer " + buffers[b].name + " ends outside its region");
    }
  }
  return Status();
}

void hash_worker(const TensorTable& table, const PlanWorker& worker, Hasher* hasher) {
  const Digest layout = layout_digest(table, *worker.layout);
  hasher->add(layout.low).add(layout.high).add(uint64_t{worker.placement.size()});
  for (const Placement& place : worker.placement) {
    hasher->add(uint64_t{place.region}).add(place.offset);
  }
  hasher->add(uint64_t{worker.region_bytes.size()});
  for (const uint64_t bytes : worker.region_bytes) hasher->add(bytes);
}

Digest inputs_digest(const TensorTable& table, const PlanWorker& receiver, uint32_t receiver_index,
                     std::span<const PlanWorker> sources) {
  Hasher hasher;
  hasher.add(kPlannerVersion).add(table.digest().low).add(table.digest().high);
  hasher.add(uint64_t{receiver_index});
  hash_worker(table, receiver, &hasher);
  hasher.add(uint64_t{sources.size()});
  for (const PlanWorker& source : sources) hash_worker(table, source, &hasher);
  return hasher.digest();
}

// The receiver's pieces in an order that does not depend on how the layout lists them.
std::vector<const Piece*> needs_of(const WorkerLayout& layout) {
  std::vector<const Piece*> needs;
  needs.reserve(layout.pieces.size());
  for (const Piece& piece : layout.pieces) needs.push_back(&piece);
  std::sort(needs.begin(), needs.end(),
            [](const Piece* a, const Piece* b) { return piece_before(*a, *b); });
  return needs;
}

// What no source holds; filled in ascending order of tensors.
struct Missing {
  uint64_t bytes = 0;
  uint32_t tensors = 0;
  uint32_t first = 0;
  uint32_t last = 0;

  void add(uint32_t tensor, uint64_t more) {
    if (tensors == 0) first = tensor;
    if (tensors == 0 || last != tensor) ++tensors;
    last = tensor;
    bytes += more;
  }
};

}  // namespace

Result<Plan> make_plan(const TensorTable& table, const PlanWorker& receiver,
                       uint32_t receiver_index, std::span<const PlanWorker> sources) {
  WB_RETURN_IF_ERROR(check_placement(receiver));
  for (const PlanWorker& source : sources) WB_RETURN_IF_ERROR(check_placement(source));

  Sharing sharing(table, *receiver.layout, receiver_index, sources);
  std::vector<std::vector<Run>> runs(sources.size());
  std::vector<Share> shares;
  Missing missing;
  for (const Piece* need : needs_of(*receiver.layout)) {
    shares.clear();
    WB_ASSIGN_OR_RETURN(const uint64_t absent, sharing.split(*need, &shares));
    if (absent != 0) missing.add(need->tensor, absent);
    if (missing.tensors != 0) continue;
    const uint32_t unit = dtype_info(table[need->tensor].dtype).unit_bytes;
    for (const Share& share : shares) {
      const PlanWorker& source = sources[share.source];
      Status lowered = lower_share(share, unit, source.placement[share.from->buffer],
                                   receiver.placement[need->buffer], &runs[share.source]);
      if (!lowered.ok()) {
        const std::string& tensor = table[need->tensor].name;
        return std::move(lowered)
            .prefixed("reading " + tensor + " from " + source.name + ": ")
            .with_tensor(tensor)
            .with_peer(source.name);
      }
    }
  }
  if (missing.tensors != 0) {
    const std::string& first = table[missing.first].name;
    return Status(Code::kNotCovered, "no source holds what " + receiver.name +
                                         " needs: " + std::to_string(missing.bytes) + " bytes of " +
                                         std::to_string(missing.tensors) +
                                         " tensor(s), the first is " + first)
        .with_peer(receiver.name)
        .with_tensor(first);
  }

  Plan plan;
  plan.inputs = inputs_digest(table, receiver, receiver_index, sources);
  for (uint32_t s = 0; s < sources.size(); ++s) {
    if (runs[s].empty()) continue;
    merge_runs(&runs[s]);
    ReadList& list = plan.lists.emplace_back();
    list.source = s;
    list.runs = std::move(runs[s]);
    for (const Run& run : list.runs) {
      list.bytes += run.length * run.count;
      list.reads += run.count;
    }
    plan.bytes += list.bytes;
  }
  return plan;
}

}  // namespace wb
