#include "plan/writes.h"

#include <algorithm>

namespace wb::proof {
namespace {

uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

struct Part {
  Span span;
  uint32_t group = 0;
};

// Where two of the parts meet, if they do.
std::optional<uint64_t> meeting(std::vector<Part>* parts, Among among) {
  std::sort(parts->begin(), parts->end(),
            [](const Part& a, const Part& b) { return a.span.begin < b.span.begin; });
  // The furthest end so far, and the furthest of all other groups.
  Part furthest;
  uint64_t others = 0;
  bool any = false;
  for (const Part& part : *parts) {
    const bool same = among == Among::kGroups && part.group == furthest.group;
    if (any && part.span.begin < (same ? others : furthest.span.end)) return part.span.begin;
    if (!any || part.span.end > furthest.span.end) {
      if (any && !same) others = furthest.span.end;
      furthest = part;
    } else if (!same) {
      others = std::max(others, part.span.end);
    }
    any = true;
  }
  return std::nullopt;
}

// True when all rows have one pitch and no two runs have rows at the same place modulo it: then no
// two rows meet. False says nothing.
bool side_by_side(std::span<const Write> writes, Among among) {
  const uint64_t pitch = magnitude(writes.front().run->local_pitch);
  if (pitch == 0) return false;
  std::vector<Part> columns;
  columns.reserve(writes.size() + 1);
  for (const Write& write : writes) {
    const Run& run = *write.run;
    if (magnitude(run.local_pitch) != pitch || run.length > pitch) return false;
    const uint64_t begin = run.local_offset % pitch;
    const uint64_t end = begin + run.length;
    columns.push_back({{begin, std::min(end, pitch)}, write.group});
    if (end > pitch) columns.push_back({{0, end - pitch}, write.group});
  }
  return !meeting(&columns, among).has_value();
}

bool one_group(std::span<const Write> writes) {
  return std::all_of(writes.begin(), writes.end(),
                     [&](const Write& w) { return w.group == writes.front().group; });
}

// A byte written twice by runs of one region whose spans meet.
Result<std::optional<uint64_t>> twice_among(std::span<const Write> writes, Among among,
                                            std::vector<Part>* rows, Work* work) {
  if (among == Among::kGroups && one_group(writes)) return std::optional<uint64_t>();
  if (writes.size() == 1) {
    const Run& run = *writes.front().run;
    if (run.count == 1 || magnitude(run.local_pitch) >= run.length) {
      return std::optional<uint64_t>();
    }
  }
  if (side_by_side(writes, among)) return std::optional<uint64_t>();
  rows->clear();
  for (const Write& write : writes) {
    const Run& run = *write.run;
    if (!work->spend(run.count)) return Work::exhausted("proving that no byte is written twice");
    for (uint64_t row = 0; row < run.count; ++row) {
      const uint64_t begin = row_address(run.local_offset, row, run.local_pitch);
      rows->push_back({{begin, begin + run.length}, write.group});
    }
  }
  return meeting(rows, among);
}

}  // namespace

Result<std::optional<ByteAddress>> written_twice(std::vector<Write>* writes, Among among,
                                                 Work* work) {
  std::sort(writes->begin(), writes->end(), [](const Write& a, const Write& b) {
    if (a.run->local_region != b.run->local_region) {
      return a.run->local_region < b.run->local_region;
    }
    return a.span.begin < b.span.begin;
  });
  std::vector<Part> rows;
  for (size_t first = 0; first < writes->size();) {
    const uint32_t region = (*writes)[first].run->local_region;
    uint64_t end = (*writes)[first].span.end;
    size_t last = first + 1;
    while (last < writes->size() && (*writes)[last].run->local_region == region &&
           (*writes)[last].span.begin < end) {
      end = std::max(end, (*writes)[last].span.end);
      ++last;
    }
    WB_ASSIGN_OR_RETURN(const std::optional<uint64_t> byte,
                        twice_among({writes->data() + first, last - first}, among, &rows, work));
    if (byte) return std::optional(ByteAddress{region, *byte});
    first = last;
  }
  return std::optional<ByteAddress>();
}

}  // namespace wb::proof
