#include "session/target.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace wb {
namespace {

// Finds the buffer that holds a byte of a region.
class BufferIndex {
 public:
  BufferIndex(const WorkerLayout& layout, const BoundMemory& memory)
      : layout_(layout), memory_(memory), order_(layout.buffers.size()) {
    std::iota(order_.begin(), order_.end(), 0u);
    std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) { return at(a) < at(b); });
    // An empty buffer holds no byte and may share its place with another.
    std::erase_if(order_, [&](uint32_t i) { return layout_.buffers[i].bytes == 0; });
  }

  Result<uint32_t> find(uint32_t region, uint64_t offset) const {
    const Place place{region, offset};
    const auto after =
        std::upper_bound(order_.begin(), order_.end(), place,
                         [&](const Place& wanted, uint32_t buffer) { return wanted < at(buffer); });
    if (after != order_.begin()) {
      const uint32_t buffer = *(after - 1);
      const Placement& placed = memory_.placement[buffer];
      if (placed.region == region && offset - placed.offset < layout_.buffers[buffer].bytes)
        return buffer;
    }
    return Status(Code::kInternal, "a proved plan writes outside the receiver's buffers");
  }

 private:
  using Place = std::pair<uint32_t, uint64_t>;
  Place at(uint32_t buffer) const {
    return {memory_.placement[buffer].region, memory_.placement[buffer].offset};
  }

  const WorkerLayout& layout_;
  const BoundMemory& memory_;
  std::vector<uint32_t> order_;
};

// A contiguous range may have been merged over neighbouring buffers: one run for each of them.
Status add_range(const WorkerLayout& layout, const BoundMemory& target, const BufferIndex& index,
                 uint32_t region, uint64_t offset, uint64_t length, std::vector<InstallRun>* out) {
  while (length != 0) {
    WB_ASSIGN_OR_RETURN(const uint32_t buffer, index.find(region, offset));
    const uint64_t inside = offset - target.placement[buffer].offset;
    const uint64_t part = std::min(length, layout.buffers[buffer].bytes - inside);
    out->push_back({buffer, inside, part, 1, 0});
    offset += part;
    length -= part;
  }
  return Status();
}

uint64_t row_offset(const Run& run, uint64_t row) {
  return run.local_offset +
         static_cast<uint64_t>(static_cast<int64_t>(row) * run.local_pitch);  // modulo 2^64
}

Status add_run(const WorkerLayout& layout, const BoundMemory& target, const BufferIndex& index,
               const Run& run, std::vector<InstallRun>* out) {
  if (run.length == 0 || run.count == 0) return Status();
  if (run.count > 1) {
    const uint64_t last = row_offset(run, run.count - 1);
    const uint64_t low = std::min(run.local_offset, last);
    const uint64_t high = std::max(run.local_offset, last) + run.length;
    WB_ASSIGN_OR_RETURN(const uint32_t buffer, index.find(run.local_region, low));
    const uint64_t base = target.placement[buffer].offset;
    if (high - base <= layout.buffers[buffer].bytes) {
      out->push_back({buffer, run.local_offset - base, run.length, run.count, run.local_pitch});
      return Status();
    }
  }
  for (uint64_t row = 0; row < run.count; ++row) {
    WB_RETURN_IF_ERROR(
        add_range(layout, target, index, run.local_region, row_offset(run, row), run.length, out));
  }
  return Status();
}

void merge_neighbours(std::vector<InstallRun>* runs) {
  std::sort(runs->begin(), runs->end(), [](const InstallRun& a, const InstallRun& b) {
    return std::pair(a.buffer, a.offset) < std::pair(b.buffer, b.offset);
  });
  size_t kept = 0;
  for (const InstallRun& run : *runs) {
    if (kept != 0) {
      InstallRun& before = (*runs)[kept - 1];
      if (before.count == 1 && run.count == 1 && before.buffer == run.buffer &&
          before.offset + before.length == run.offset) {
        before.length += run.length;
        continue;
      }
    }
    (*runs)[kept++] = run;
  }
  runs->resize(kept);
}

}  // namespace

Result<std::vector<InstallRun>> install_runs(const WorkerLayout& layout, const BoundMemory& target,
                                             const Plan& plan) {
  const BufferIndex index(layout, target);
  std::vector<InstallRun> out;
  for (const ReadList& list : plan.lists)
    for (const Run& run : list.runs) WB_RETURN_IF_ERROR(add_run(layout, target, index, run, &out));
  merge_neighbours(&out);
  return out;
}

void copy_runs(std::span<const InstallRun> runs, const BoundMemory& from, const BoundMemory& to) {
  for (const InstallRun& run : runs) {
    const std::byte* const source = from.buffer(run.buffer);
    std::byte* const place = to.buffer(run.buffer);
    int64_t offset = static_cast<int64_t>(run.offset);
    for (uint64_t row = 0; row < run.count; ++row, offset += run.pitch)
      std::memcpy(place + offset, source + offset, run.length);
  }
}

void zero_fill(const WorkerLayout& layout, const BoundMemory& memory) {
  for (const Extra& extra : layout.extras) {
    if (extra.kind == ExtraKind::kZeroFill)
      std::memset(memory.buffer(extra.buffer) + extra.offset, 0, extra.bytes);
  }
}

std::vector<std::string> finalisers(const WorkerLayout& layout) {
  std::vector<std::string> out;
  for (const Extra& extra : layout.extras)
    if (extra.kind == ExtraKind::kComputed) out.push_back(extra.name);
  return out;
}

}  // namespace wb
