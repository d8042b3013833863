#include "plan/writes.h"

#include <algorithm>

namespace wb::proof {
namespace {

uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// Where two of the spans meet, if they do.
std::optional<uint64_t> meeting(std::vector<Span>* spans) {
  std::sort(spans->begin(), spans->end(),
            [](const Span& a, const Span& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < spans->size(); ++i) {
    if ((*spans)[i].begin < (*spans)[i - 1].end) return (*spans)[i].begin;
  }
  return std::nullopt;
}

// True when all rows have one pitch and no two runs have rows at the same place modulo it: then no
// two rows meet. False says nothing.
bool side_by_side(std::span<const Write> writes) {
  const uint64_t pitch = magnitude(writes.front().run->local_pitch);
  if (pitch == 0) return false;
  std::vector<Span> columns;
  columns.reserve(writes.size() + 1);
  for (const Write& write : writes) {
    const Run& run = *write.run;
    if (magnitude(run.local_pitch) != pitch || run.length > pitch) return false;
    const uint64_t begin = run.local_offset % pitch;
    const uint64_t end = begin + run.length;
    columns.push_back(Span{begin, std::min(end, pitch)});
    if (end > pitch) columns.push_back(Span{0, end - pitch});
  }
  return !meeting(&columns).has_value();
}

// A byte written twice by runs of one region whose spans meet.
std::optional<uint64_t> twice_among(std::span<const Write> writes, std::vector<Span>* rows) {
  if (writes.size() == 1) {
    const Run& run = *writes.front().run;
    if (run.count == 1 || magnitude(run.local_pitch) >= run.length) return std::nullopt;
  }
  if (side_by_side(writes)) return std::nullopt;
  rows->clear();
  for (const Write& write : writes) {
    const Run& run = *write.run;
    for (uint64_t row = 0; row < run.count; ++row) {
      const uint64_t begin = row_address(run.local_offset, row, run.local_pitch);
      rows->push_back(Span{begin, begin + run.length});
    }
  }
  return meeting(rows);
}

}  // namespace

std::optional<ByteAddress> written_twice(std::vector<Write>* writes) {
  std::sort(writes->begin(), writes->end(), [](const Write& a, const Write& b) {
    if (a.run->local_region != b.run->local_region) {
      return a.run->local_region < b.run->local_region;
    }
    return a.span.begin < b.span.begin;
  });
  std::vector<Span> rows;
  for (size_t first = 0; first < writes->size();) {
    const uint32_t region = (*writes)[first].run->local_region;
    uint64_t end = (*writes)[first].span.end;
    size_t last = first + 1;
    while (last < writes->size() && (*writes)[last].run->local_region == region &&
           (*writes)[last].span.begin < end) {
      end = std::max(end, (*writes)[last].span.end);
      ++last;
    }
    if (const auto byte = twice_among({writes->data() + first, last - first}, &rows)) {
      return ByteAddress{region, *byte};
    }
    first = last;
  }
  return std::nullopt;
}

}  // namespace wb::proof
