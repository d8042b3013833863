#include "transport/verbs/pieces.h"

#include <algorithm>
#include <limits>

namespace wb::verbs {
namespace {

// Addresses move by signed pitches; unsigned arithmetic wraps to the right place.
uint64_t moved(uint64_t base, uint64_t steps, int64_t pitch) {
  return base + steps * static_cast<uint64_t>(pitch);
}

// How many rows, the one at `offset` included, follow each other inside [begin, end).
uint64_t rows_inside(uint64_t offset, uint64_t length, int64_t pitch, uint64_t begin,
                     uint64_t end) {
  if (pitch == 0) return std::numeric_limits<uint64_t>::max();
  if (pitch > 0) return (end - length - offset) / static_cast<uint64_t>(pitch) + 1;
  return (offset - begin) / (~static_cast<uint64_t>(pitch) + 1) + 1;
}

class Builder {
 public:
  explicit Builder(const PieceLimits& limits) : limits_(limits) {}

  void add(const Run& run, const RegionView& remote, const RegionView& local) {
    remote_ = &remote;
    local_ = &local;
    uint64_t length = run.length;
    uint64_t count = run.count;
    const auto touches = [&](int64_t pitch) { return pitch == static_cast<int64_t>(run.length); };
    if (count > 1 && touches(run.remote_pitch) && touches(run.local_pitch)) {
      length *= count;
      count = 1;
    }
    for (uint64_t row = 0; row < count;) {
      const uint64_t from = moved(run.remote_offset, row, run.remote_pitch);
      const uint64_t to = moved(run.local_offset, row, run.local_pitch);
      row += add_rows(from, to, length, count - row, run.remote_pitch, run.local_pitch);
    }
  }

  std::vector<Piece> take() { return std::move(pieces_); }

 private:
  // Adds rows that lie in the same slices as the first one; returns how many. One that crosses a
  // border is cut there.
  uint64_t add_rows(uint64_t from, uint64_t to, uint64_t length, uint64_t most,
                    int64_t remote_pitch, int64_t local_pitch) {
    const uint64_t remote_begin = from / remote_->slice_bytes * remote_->slice_bytes;
    const uint64_t local_begin = to / local_->slice_bytes * local_->slice_bytes;
    if (to_border(from, to) < length) {
      for (uint64_t at = 0; at < length;) {
        const uint64_t part = std::min(length - at, to_border(from + at, to + at));
        add_inside(from + at, to + at, part, 1, 0, 0);
        at += part;
      }
      return 1;
    }
    const uint64_t rows = std::min(
        {most,
         rows_inside(from, length, remote_pitch, remote_begin, remote_begin + remote_->slice_bytes),
         rows_inside(to, length, local_pitch, local_begin, local_begin + local_->slice_bytes)});
    add_inside(from, to, length, rows, remote_pitch, local_pitch);
    return rows;
  }

  uint64_t to_border(uint64_t from, uint64_t to) const {
    return std::min(remote_->slice_bytes - from % remote_->slice_bytes,
                    local_->slice_bytes - to % local_->slice_bytes);
  }

  void add_inside(uint64_t from, uint64_t to, uint64_t length, uint64_t rows, int64_t remote_pitch,
                  int64_t local_pitch) {
    const uint64_t parts = (length - 1) / limits_.max_read + 1;
    if (parts == 1) {
      add_short(from, to, length, rows, remote_pitch, local_pitch);
      return;
    }
    // Long rows: whichever way gives fewer pieces, all rows' first parts, then all second parts,
    // or row by row.
    const uint64_t whole = length / limits_.max_read;
    const uint64_t rest = length % limits_.max_read;
    const auto step = static_cast<int64_t>(limits_.max_read);
    if (parts < 2 * rows) {
      for (uint64_t part = 0; part < parts; ++part) {
        const uint64_t at = part * limits_.max_read;
        push(from + at, to + at, std::min<uint64_t>(limits_.max_read, length - at), rows,
             remote_pitch, local_pitch);
      }
      return;
    }
    for (uint64_t row = 0; row < rows; ++row) {
      const uint64_t row_from = moved(from, row, remote_pitch);
      const uint64_t row_to = moved(to, row, local_pitch);
      push(row_from, row_to, limits_.max_read, whole, step, step);
      if (rest != 0) {
        push(row_from + whole * limits_.max_read, row_to + whole * limits_.max_read, rest, 1, 0, 0);
      }
    }
  }

  void add_short(uint64_t from, uint64_t to, uint64_t length, uint64_t rows, int64_t remote_pitch,
                 int64_t local_pitch) {
    const bool together = remote_pitch == static_cast<int64_t>(length);
    const uint64_t shared = std::min<uint64_t>(limits_.scatter, limits_.max_read / length);
    if (!together || rows < 2 || shared < 2 || length > kScatterBelow) {
      push(from, to, length, rows, remote_pitch, local_pitch);
      return;
    }
    const uint64_t full = rows / shared;
    if (full != 0) {
      push_shared(from, to, length, full, static_cast<uint32_t>(shared), local_pitch);
    }
    if (const uint64_t rest = rows % shared; rest != 0) {
      push_shared(from + full * shared * length, moved(to, full * shared, local_pitch), length, 1,
                  static_cast<uint32_t>(rest), local_pitch);
    }
  }

  void push_shared(uint64_t from, uint64_t to, uint64_t length, uint64_t count, uint32_t rows,
                   int64_t row_pitch) {
    // count * rows * row_pitch is inside the region, so one factor less does not overflow.
    push(from, to, length, count, static_cast<int64_t>(length * rows),
         count > 1 ? static_cast<int64_t>(rows) * row_pitch : 0);
    pieces_.back().rows = rows;
    pieces_.back().row_pitch = row_pitch;
  }

  void push(uint64_t from, uint64_t to, uint64_t length, uint64_t count, int64_t remote_pitch,
            int64_t local_pitch) {
    Piece piece;
    piece.first = next_;
    piece.remote = remote_->address + from;
    piece.local = local_->address + to;
    piece.count = count;
    piece.remote_pitch = remote_pitch;
    piece.local_pitch = local_pitch;
    piece.length = static_cast<uint32_t>(length);
    piece.remote_key = remote_->first_key + static_cast<uint32_t>(from / remote_->slice_bytes);
    piece.local_key = local_->first_key + static_cast<uint32_t>(to / local_->slice_bytes);
    pieces_.push_back(piece);
    next_ += count;
  }

  const PieceLimits limits_;
  const RegionView* remote_ = nullptr;
  const RegionView* local_ = nullptr;
  std::vector<Piece> pieces_;
  uint64_t next_ = 0;
};

}  // namespace

std::vector<Piece> make_pieces(std::span<const Run> runs, std::span<const RegionView> remote,
                               std::span<const RegionView> local, const PieceLimits& limits) {
  Builder builder(limits);
  for (const Run& run : runs) {
    if (run.count == 0 || run.length == 0) continue;
    builder.add(run, remote[run.remote_region], local[run.local_region]);
  }
  return builder.take();
}

}  // namespace wb::verbs
