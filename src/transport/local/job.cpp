#include "transport/local/job.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/racy_copy.h"
#include "base/stream_copy.h"
#include "transport/local/populate.h"

namespace wb::local {
namespace {

// Addresses move by signed pitches; unsigned arithmetic wraps to the right place.
uint64_t row_address(uint64_t base, uint64_t row, int64_t pitch) {
  return base + row * static_cast<uint64_t>(pitch);
}

std::byte* row_address(std::byte* base, uint64_t row, int64_t pitch) {
  return base + static_cast<std::ptrdiff_t>(row * static_cast<uint64_t>(pitch));
}

// More than the caches of a core hold: what is copied first is gone from them at the end.
constexpr uint64_t kStreamedJobBytes = 8u << 20;

bool mapped_bytes_outgrow_caches(const std::vector<Piece>& pieces) {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) {
    if (piece.mapped) bytes += piece.length * piece.count;
  }
  return bytes >= kStreamedJobBytes;
}

}  // namespace

LocalJob::LocalJob(const Connection* owner, std::vector<Piece> pieces,
                   std::vector<std::shared_ptr<const RemoteRegionRecord>> remote,
                   std::vector<std::shared_ptr<const LocalRegionRecord>> local)
    : owner_(owner),
      pieces_(std::move(pieces)),
      remote_(std::move(remote)),
      local_(std::move(local)),
      streamed_(mapped_bytes_outgrow_caches(pieces_)) {}

Status LocalJob::start() {
  if (state_ == JobState::kActive) {
    return Status(Code::kFailedPrecondition, "the read job is already active");
  }
  for (const auto& region : local_) {
    if (!region->registered.load(std::memory_order_relaxed)) {
      return Status(Code::kFailedPrecondition,
                    "a region that the read job writes to has been deregistered");
    }
  }
  state_ = JobState::kActive;
  status_ = Status();
  bytes_done_ = 0;
  cursor_ = {};
  return Status();
}

void LocalJob::fail(Status status) {
  state_ = JobState::kFailed;
  status_ = std::move(status);
}

Status LocalJob::populate(Deadline deadline) const {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<AddressRange> ranges;
  ranges.reserve(pieces_.size());
  for (const Piece& piece : pieces_) {
    if (!piece.mapped) continue;
    const auto pitch = static_cast<uint64_t>(std::abs(piece.remote_pitch));
    if (pitch <= piece.length + kFaultAround) {
      const uint64_t last = row_address(piece.remote, piece.count - 1, piece.remote_pitch);
      ranges.push_back({piece.region, std::min(piece.remote, last),
                        std::max(piece.remote, last) + piece.length});
      continue;
    }
    for (uint64_t row = 0; row < piece.count; ++row) {
      const uint64_t begin = row_address(piece.remote, row, piece.remote_pitch);
      ranges.push_back({piece.region, begin, begin + piece.length});
    }
  }
  return local::populate(page_ranges(std::move(ranges), page), deadline);
}

JobState LocalJob::advance(uint64_t budget, const ProcessReader& reader, RangeBatch& batch) {
  while (state_ == JobState::kActive && cursor_.piece < pieces_.size() && budget != 0) {
    uint64_t moved = 0;
    if (pieces_[cursor_.piece].mapped) {
      moved = copy_mapped(budget);
    } else {
      auto copied = copy_process(budget, reader, batch);
      if (!copied.ok()) {
        fail(copied.status());
        break;
      }
      moved = *copied;
    }
    bytes_done_ += moved;
    budget -= std::min(budget, moved);
  }
  if (streamed_) stream_fence();
  if (state_ == JobState::kActive && cursor_.piece == pieces_.size()) {
    // Only now is it known that no region was taken away under the copies.
    Status registered = check_stamps(remote_, reader, batch);
    if (registered.ok()) {
      state_ = JobState::kDone;
    } else {
      fail(std::move(registered));
    }
  }
  return state_;
}

uint64_t LocalJob::copy_mapped(uint64_t budget) {
  const Piece& piece = pieces_[cursor_.piece];
  uint64_t moved = 0;
  if (cursor_.byte == 0 && piece.length <= budget) {
    const uint64_t rows = std::min(piece.count - cursor_.row, budget / piece.length);
    uint64_t from = row_address(piece.remote, cursor_.row, piece.remote_pitch);
    std::byte* to = row_address(piece.local, cursor_.row, piece.local_pitch);
    if (streamed_ && piece.length >= kMinStreamBytes) {
      stream_rows(piece, rows, from, to);
    } else {
      for (uint64_t i = 0; i < rows; ++i) {
        racy_copy(to, reinterpret_cast<const void*>(from), piece.length);
        from += static_cast<uint64_t>(piece.remote_pitch);
        to += piece.local_pitch;
      }
    }
    moved = rows * piece.length;
  } else {
    moved = std::min(budget, piece.length - cursor_.byte);
    const uint64_t from = row_address(piece.remote, cursor_.row, piece.remote_pitch) + cursor_.byte;
    std::byte* to = row_address(piece.local, cursor_.row, piece.local_pitch) + cursor_.byte;
    if (streamed_) {
      stream_copy(to, reinterpret_cast<const void*>(from), moved, {});
    } else {
      racy_copy(to, reinterpret_cast<const void*>(from), moved);
    }
  }
  skip(cursor_, moved);
  return moved;
}

void LocalJob::stream_rows(const Piece& piece, uint64_t rows, uint64_t from, std::byte* to) const {
  for (uint64_t i = 1; i < rows; ++i) {
    const uint64_t next_from = from + static_cast<uint64_t>(piece.remote_pitch);
    std::byte* next_to = to + piece.local_pitch;
    stream_copy(to, reinterpret_cast<const void*>(from), piece.length,
                {reinterpret_cast<const void*>(next_from), next_to, piece.length});
    from = next_from;
    to = next_to;
  }
  NextRange next;
  if (cursor_.piece + 1 < pieces_.size() && pieces_[cursor_.piece + 1].mapped) {
    const Piece& after = pieces_[cursor_.piece + 1];
    next = {reinterpret_cast<const void*>(after.remote), after.local, after.length};
  }
  if (cursor_.piece + 2 < pieces_.size() && pieces_[cursor_.piece + 2].mapped) {
    stream_soon(reinterpret_cast<const void*>(pieces_[cursor_.piece + 2].remote));
  }
  stream_copy(to, reinterpret_cast<const void*>(from), piece.length, next);
}

Result<uint64_t> LocalJob::copy_process(uint64_t budget, const ProcessReader& reader,
                                        RangeBatch& batch) {
  batch.clear();
  Cursor ahead = cursor_;
  while (!batch.full() && batch.bytes() < budget && ahead.piece < pieces_.size() &&
         !pieces_[ahead.piece].mapped) {
    fill(ahead, budget - batch.bytes(), batch);
  }
  WB_ASSIGN_OR_RETURN(const uint64_t got, reader.read(batch));
  if (got == batch.bytes()) {
    cursor_ = ahead;
  } else {
    // The kernel stops at the first page that it cannot read: the next call says why.
    for (uint64_t rest = got; rest != 0;) {
      const Piece& piece = pieces_[cursor_.piece];
      const uint64_t in_piece = (piece.count - cursor_.row) * piece.length - cursor_.byte;
      const uint64_t step = std::min(rest, in_piece);
      skip(cursor_, step);
      rest -= step;
    }
  }
  return got;
}

void LocalJob::fill(Cursor& cursor, uint64_t budget, RangeBatch& batch) const {
  const Piece& piece = pieces_[cursor.piece];
  uint64_t added = 0;
  while (cursor.row < piece.count && added < budget && !batch.full()) {
    const uint64_t length = std::min(budget - added, piece.length - cursor.byte);
    batch.add(row_address(piece.remote, cursor.row, piece.remote_pitch) + cursor.byte,
              row_address(piece.local, cursor.row, piece.local_pitch) + cursor.byte, length);
    added += length;
    cursor.byte += length;
    if (cursor.byte == piece.length) {
      cursor.byte = 0;
      ++cursor.row;
    }
  }
  if (cursor.row == piece.count) cursor = {cursor.piece + 1, 0, 0};
}

void LocalJob::skip(Cursor& cursor, uint64_t bytes) const {
  const Piece& piece = pieces_[cursor.piece];
  const uint64_t at = cursor.byte + bytes;
  cursor.row += at / piece.length;
  cursor.byte = at % piece.length;
  if (cursor.row == piece.count) cursor = {cursor.piece + 1, 0, 0};
}

}  // namespace wb::local
