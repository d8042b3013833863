#include "plan/homes.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "base/checked.h"
#include "layout/dtype.h"

namespace wb::proof {
namespace {

// The byte interval of a piece inside its buffer, or nothing on overflow.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
};

std::optional<Interval> interval_of(const Piece& piece, uint32_t unit) {
  Interval interval{piece.offset, piece.offset};
  for (int d = 0; d < piece.box.rank(); ++d) {
    const auto span = checked_mul(piece.box.dim(d).count - 1, piece.stride[static_cast<size_t>(d)]);
    if (!span) return std::nullopt;
    int64_t& side = *span < 0 ? interval.begin : interval.end;
    const auto moved = checked_add(side, *span);
    if (!moved) return std::nullopt;
    side = *moved;
  }
  const auto end = checked_add(interval.end, int64_t{unit});
  if (!end) return std::nullopt;
  interval.end = *end;
  return interval;
}

bool inside_tensor(const Piece& piece, const std::vector<int64_t>& shape) {
  if (static_cast<size_t>(piece.box.rank()) != shape.size()) return false;
  for (int d = 0; d < piece.box.rank(); ++d) {
    const Progression& p = piece.box.dim(d);
    if (p.start < 0 || p.count < 1 || p.step < 1 || p.last() >= shape[static_cast<size_t>(d)]) {
      return false;
    }
  }
  return true;
}

Status unproven(const PlanWorker& worker, const std::string& what) {
  return Status(Code::kUnproven, "layout of " + worker.name + ": " + what).with_peer(worker.name);
}

Status check_placement(const PlanWorker& worker) {
  const auto& buffers = worker.layout->buffers;
  if (worker.placement.size() != buffers.size()) {
    return unproven(worker, "buffers and placements differ in number");
  }
  for (size_t b = 0; b < buffers.size(); ++b) {
    const Placement& place = worker.placement[b];
    if (place.region >= worker.region_bytes.size() ||
        !range_inside(place.offset, buffers[b].bytes, worker.region_bytes[place.region]) ||
        !checked_cast<int64_t>(worker.region_bytes[place.region])) {
      return unproven(worker, "buffer " + buffers[b].name + " is not inside its region");
    }
  }
  return Status();
}

}  // namespace

Result<Homes> Homes::make(const TensorTable& table, const PlanWorker& worker, Group group) {
  WB_RETURN_IF_ERROR(check_placement(worker));
  const auto& buffers = worker.layout->buffers;
  Homes result;
  result.group_ = group;
  result.homes_.reserve(worker.layout->pieces.size());
  std::vector<int64_t> shape;
  uint32_t shape_of = 0;
  for (const Piece& piece : worker.layout->pieces) {
    if (piece.tensor >= table.size()) return unproven(worker, "a piece of an unknown tensor");
    const TensorInfo& tensor = table[piece.tensor];
    if (piece.buffer >= buffers.size()) {
      return unproven(worker, "a piece of " + tensor.name + " in an unknown buffer");
    }
    if (result.homes_.empty() || shape_of != piece.tensor) {
      shape = tensor.unit_shape();
      shape_of = piece.tensor;
    }
    if (!inside_tensor(piece, shape)) {
      return unproven(worker, "a piece is not inside its tensor " + tensor.name);
    }
    const BufferInfo& buffer = buffers[piece.buffer];
    const uint32_t unit = dtype_info(tensor.dtype).unit_bytes;
    const auto interval = interval_of(piece, unit);
    if (!interval || interval->begin < 0 || static_cast<uint64_t>(interval->end) > buffer.bytes) {
      return unproven(worker, "a piece of " + tensor.name + " is not inside buffer " + buffer.name);
    }
    const Placement& place = worker.placement[piece.buffer];
    Home home;
    home.piece = &piece;
    home.region = place.region;
    home.unit = unit;
    home.origin = static_cast<int64_t>(place.offset) + piece.offset;
    home.begin = place.offset + static_cast<uint64_t>(interval->begin);
    home.end = place.offset + static_cast<uint64_t>(interval->end);
    result.homes_.push_back(home);
  }

  std::sort(result.homes_.begin(), result.homes_.end(), [group](const Home& a, const Home& b) {
    if (a.region != b.region) return a.region < b.region;
    if (group == Group::kRegionAndTensor && a.piece->tensor != b.piece->tensor) {
      return a.piece->tensor < b.piece->tensor;
    }
    return a.begin < b.begin;
  });
  for (size_t i = 0; i < result.homes_.size(); ++i) {
    Home& home = result.homes_[i];
    home.reach = home.end;
    if (i == 0) continue;
    const Home& before = result.homes_[i - 1];
    if (result.same_group(before, home.region, home.piece->tensor)) {
      home.reach = std::max(home.reach, before.reach);
    }
  }
  return result;
}

size_t Homes::after(uint32_t region, uint32_t tensor, uint64_t address) const {
  const auto it = std::partition_point(homes_.begin(), homes_.end(), [&](const Home& home) {
    if (home.region != region) return home.region < region;
    if (group_ == Group::kRegionAndTensor && home.piece->tensor != tensor) {
      return home.piece->tensor < tensor;
    }
    return home.begin <= address;
  });
  return static_cast<size_t>(it - homes_.begin());
}

Decoder::Decoder(const Home& home) : home_(home) {
  for (int d = 0; d < home.piece->box.rank(); ++d) {
    const int64_t count = home.piece->box.dim(d).count;
    if (count == 1) continue;
    const int64_t stride = home.piece->stride[static_cast<size_t>(d)];
    const Dim dim{d, count, stride, static_cast<uint64_t>(stride < 0 ? -stride : stride), 0};
    int i = size_++;
    for (; i > 0 && at(i - 1).width > dim.width; --i) at(i) = at(i - 1);
    at(i) = dim;
  }
  uint64_t below = home.unit;
  for (int i = 0; i < size_; ++i) {
    Dim& dim = at(i);
    dim.below = below;
    below += dim.width * static_cast<uint64_t>(dim.count - 1);
  }
}

bool Decoder::decode(uint64_t address, Place* place) const {
  place->index.fill(0);
  return decode_level(size_ - 1, address - home_.begin, place);
}

// `rest` counts from the lowest byte of what the dimensions up to `level` span. Where dimensions
// are nested (each stride at least as wide as what lies below) there is one candidate per level.
bool Decoder::decode_level(int level, uint64_t rest, Place* place) const {
  if (level < 0) {
    place->byte = rest;
    return rest < home_.unit;
  }
  const Dim& dim = dims_[static_cast<size_t>(level)];
  const uint64_t last = std::min(rest / dim.width, static_cast<uint64_t>(dim.count - 1));
  const uint64_t first = rest < dim.below ? 0 : (rest - dim.below) / dim.width + 1;
  for (uint64_t steps = last + 1; steps-- > first;) {
    if (!decode_level(level - 1, rest - steps * dim.width, place)) continue;
    const auto index = static_cast<int64_t>(steps);
    place->index[static_cast<size_t>(dim.d)] = dim.stride > 0 ? index : dim.count - 1 - index;
    return true;
  }
  return false;
}

}  // namespace wb::proof
