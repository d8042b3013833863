#include "transport/verbs/job.h"

#include <algorithm>
#include <chrono>

#include "transport/verbs/link.h"

namespace wb::verbs {

VerbsJob::VerbsJob(std::shared_ptr<Link> link, std::vector<Piece> pieces, JobKeys keys,
                   std::vector<VerbsKey> regions,
                   std::vector<std::shared_ptr<const Registration>> memory)
    : link_(std::move(link)),
      pieces_(std::move(pieces)),
      keys_(std::move(keys)),
      regions_(std::move(regions)),
      memory_(std::move(memory)) {
  if (!pieces_.empty()) reads_ = pieces_.back().first + pieces_.back().count;
}

VerbsJob::~VerbsJob() {
  if (state_ != JobState::kActive && !stuck_) return;
  const Status ended = link_->abort(this, Deadline::after(std::chrono::seconds(2)));
  if (ended.ok()) return;
  for (auto& memory : memory_) keep_for_good(std::move(memory));
}

Status VerbsJob::start() {
  if (state_ == JobState::kActive) {
    return Status(Code::kFailedPrecondition, "the read job is already active");
  }
  if (stuck_) return not_destroyed();
  state_ = JobState::kActive;
  status_ = Status();
  bytes_done_ = 0;
  next_ = 0;
  cursor_ = {};
  again_.clear();
  return Status();
}

void VerbsJob::stop(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

VerbsJob::Cursor VerbsJob::find(uint64_t index) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), index,
                       [](uint64_t wanted, const Piece& piece) { return wanted < piece.first; });
  const auto piece = static_cast<size_t>(after - pieces_.begin()) - 1;
  return {piece, index - pieces_[piece].first};
}

Taken VerbsJob::fill(WorkRequests* out, size_t path, uint32_t most, uint64_t bytes) {
  const bool fresh = again_.empty();
  const Range from = fresh ? Range{next_, reads_ - next_} : again_.back();
  Cursor at = fresh ? cursor_ : find(from.first);
  most = static_cast<uint32_t>(std::min<uint64_t>(most, from.count));
  const uint32_t* const rkeys = keys_.remote[path].data();
  const uint32_t* const lkeys = keys_.local[path].data();
  uint32_t count = 0;
  uint64_t sum = 0;
  while (count < most && sum < bytes) {
    const Piece& piece = pieces_[at.piece];
    const uint32_t rkey = rkeys[piece.remote_key];
    const uint32_t lkey = lkeys[piece.local_key];
    uint64_t remote = piece.remote + at.read * static_cast<uint64_t>(piece.remote_pitch);
    uint64_t local = piece.local + at.read * static_cast<uint64_t>(piece.local_pitch);
    const uint64_t each = piece.read_bytes();
    const uint64_t fit = (bytes - sum - 1) / each + 1;  // the one that reaches `bytes` included
    const auto here =
        static_cast<uint32_t>(std::min({uint64_t{most - count}, piece.count - at.read, fit}));
    for (uint32_t i = 0; i < here; ++i) {
      if (piece.rows == 1) {
        out->set(count + i, remote, rkey, local, piece.length, lkey);
      } else {
        out->set_scattered(count + i, remote, rkey, local, piece.row_pitch, piece.rows,
                           piece.length, lkey);
      }
      remote += static_cast<uint64_t>(piece.remote_pitch);
      local += static_cast<uint64_t>(piece.local_pitch);
    }
    count += here;
    sum += here * each;
    at.read += here;
    if (at.read == piece.count) at = {at.piece + 1, 0};
  }
  filled_ = at;
  return {{from.first, count}, sum};
}

uint64_t VerbsJob::posted(const Taken& taken, uint32_t count) {
  const bool all = count == taken.range.count;
  if (again_.empty()) {
    next_ += count;
    cursor_ = all ? filled_ : next_ < reads_ ? find(next_) : Cursor{pieces_.size(), 0};
  } else {
    Range& from = again_.back();
    from.first += count;
    from.count -= count;
    if (from.count == 0) again_.pop_back();
  }
  ++in_flight_;
  return all ? taken.bytes : bytes_of({taken.range.first, count});
}

uint64_t VerbsJob::bytes_of(const Range& range) const {
  uint64_t sum = 0;
  Cursor at = find(range.first);
  for (uint64_t left = range.count; left != 0;) {
    const Piece& piece = pieces_[at.piece];
    const uint64_t here = std::min(left, piece.count - at.read);
    sum += here * piece.read_bytes();
    left -= here;
    at = {at.piece + 1, 0};
  }
  return sum;
}

}  // namespace wb::verbs
