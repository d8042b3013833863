#include "plan/overlap.h"

#include <algorithm>
#include <tuple>

#include "layout/dtype.h"

namespace wb {
namespace {

// Pairs of boxes that are compared for one receiver: a few seconds. What a model's layouts need is
// thousands of times less.
constexpr uint64_t kMaxSteps = uint64_t{1} << 27;

auto key(const Progression& p) { return std::tuple(p.start, p.count, p.step); }

// Whether the ranges of the boxes meet in every dimension: cheap, and necessary for intersect().
bool ranges_meet(const Box& a, const Box& b) {
  if (a.rank() != b.rank()) return false;
  for (int d = 0; d < a.rank(); ++d) {
    if (a.dim(d).start > b.dim(d).last() || b.dim(d).start > a.dim(d).last()) return false;
  }
  return true;
}

bool meet(const Box& a, const Box& b) { return ranges_meet(a, b) && intersect(a, b).has_value(); }

}  // namespace

bool piece_before(const Piece& a, const Piece& b) {
  if (a.tensor != b.tensor) return a.tensor < b.tensor;
  if (a.box.rank() != b.box.rank()) return a.box.rank() < b.box.rank();
  for (int d = 0; d < a.box.rank(); ++d) {
    if (a.box.dim(d) != b.box.dim(d)) return key(a.box.dim(d)) < key(b.box.dim(d));
  }
  return std::tie(a.buffer, a.offset, a.stride) < std::tie(b.buffer, b.offset, b.stride);
}

Sharing::Sharing(const TensorTable& table, const WorkerLayout& receiver, uint32_t receiver_index,
                 std::span<const PlanWorker> sources)
    : table_(table),
      receiver_index_(receiver_index),
      sources_(sources),
      slots_(table.size()),
      load_(sources.size()),
      work_(kMaxSteps) {
  index(receiver);
}

void Sharing::index(const WorkerLayout& receiver) {
  std::vector<bool> needed(table_.size());
  for (const Piece& piece : receiver.pieces) needed[piece.tensor] = true;

  for (const PlanWorker& source : sources_) {
    for (const Piece& piece : source.layout->pieces) {
      if (needed[piece.tensor]) ++slots_[piece.tensor].end;
    }
  }
  size_t total = 0;
  for (Slot& slot : slots_) {
    const size_t size = slot.end;
    slot.begin = slot.end = total;
    total += size;
  }
  holders_.resize(total);
  for (uint32_t s = 0; s < sources_.size(); ++s) {
    for (const Piece& piece : sources_[s].layout->pieces) {
      if (needed[piece.tensor]) holders_[slots_[piece.tensor].end++] = Holder{&piece, s, 0};
    }
  }
  for (Slot& slot : slots_) sort_slot(&slot);
}

// Sorts along the dimension in which the pieces differ most, so that few are looked at per need.
void Sharing::sort_slot(Slot* slot) {
  const auto begin = holders_.begin() + static_cast<ptrdiff_t>(slot->begin);
  const auto end = holders_.begin() + static_cast<ptrdiff_t>(slot->end);
  if (begin == end) return;
  const int rank = begin->piece->box.rank();
  if (rank == 0) {
    std::sort(begin, end, [](const Holder& a, const Holder& b) {
      return a.source != b.source ? a.source < b.source : piece_before(*a.piece, *b.piece);
    });
    return;
  }
  size_t most = 0;
  std::vector<int64_t> starts(slot->end - slot->begin);
  for (int d = 0; d < rank; ++d) {
    std::transform(begin, end, starts.begin(),
                   [d](const Holder& h) { return h.piece->box.dim(d).start; });
    std::sort(starts.begin(), starts.end());
    const auto distinct =
        static_cast<size_t>(std::unique(starts.begin(), starts.end()) - starts.begin());
    if (distinct > most) {
      most = distinct;
      slot->axis = d;
    }
    starts.resize(slot->end - slot->begin);
  }
  const int axis = slot->axis;
  std::sort(begin, end, [axis](const Holder& a, const Holder& b) {
    const int64_t x = a.piece->box.dim(axis).start;
    const int64_t y = b.piece->box.dim(axis).start;
    if (x != y) return x < y;
    return a.source != b.source ? a.source < b.source : piece_before(*a.piece, *b.piece);
  });
  int64_t reach = 0;
  for (auto it = begin; it != end; ++it) {
    reach = std::max(reach, it->piece->box.dim(axis).last());
    it->reach = reach;
  }
}

std::vector<const Sharing::Holder*> Sharing::holders_of(const Piece& need) const {
  const Slot& slot = slots_[need.tensor];
  const Holder* begin = holders_.data() + slot.begin;
  const Holder* end = holders_.data() + slot.end;
  if (begin != end && need.box.rank() > 0) {
    const Progression& range = need.box.dim(slot.axis);
    const int axis = slot.axis;
    begin = std::lower_bound(begin, end, range.start,
                             [](const Holder& h, int64_t start) { return h.reach < start; });
    end = std::upper_bound(begin, end, range.last(), [axis](int64_t last, const Holder& h) {
      return last < h.piece->box.dim(axis).start;
    });
  }
  std::vector<const Holder*> holders;
  for (const Holder* h = begin; h != end; ++h) {
    if (meet(h->piece->box, need.box)) holders.push_back(h);
  }
  return holders;
}

// Equally loaded sources are taken in turn: which one comes first depends on the receiver.
const Sharing::Holder* Sharing::least_loaded(const std::vector<const Holder*>& holders) const {
  const auto rank = [this](const Holder* h) {
    const uint64_t turn = (uint64_t{h->source} + receiver_index_) % sources_.size();
    return std::pair(load_[h->source], turn);
  };
  return *std::min_element(holders.begin(), holders.end(),
                           [&](const Holder* a, const Holder* b) { return rank(a) < rank(b); });
}

Status Sharing::exhausted(const Piece& need) const {
  const std::string& tensor = table_[need.tensor].name;
  return Work::exhausted("dividing " + tensor).with_tensor(tensor);
}

Result<uint64_t> Sharing::split(const Piece& need, std::vector<Share>* out) {
  const uint64_t unit = dtype_info(table_[need.tensor].dtype).unit_bytes;
  uint64_t missing = 0;
  std::vector<Box> parts;
  std::vector<Rest> rests;
  rests.push_back(Rest{need.box, holders_of(need)});
  while (!rests.empty()) {
    const Rest rest = std::move(rests.back());
    rests.pop_back();
    if (!work_.spend(1 + rest.holders.size())) return exhausted(need);
    if (rest.holders.empty()) {
      missing += static_cast<uint64_t>(rest.box.size()) * unit;
      continue;
    }
    const Holder* holder = least_loaded(rest.holders);
    const Box taken = *intersect(rest.box, holder->piece->box);
    load_[holder->source] += static_cast<uint64_t>(taken.size()) * unit;
    out->push_back(Share{holder->source, holder->piece, &need, taken});

    parts.clear();
    subtract(rest.box, taken, &parts);
    for (const Box& part : parts) {
      if (!work_.spend(rest.holders.size())) return exhausted(need);
      Rest& left = rests.emplace_back(Rest{part, {}});
      for (const Holder* h : rest.holders) {
        if (h != holder && meet(h->piece->box, part)) left.holders.push_back(h);
      }
    }
  }
  return missing;
}

}  // namespace wb
