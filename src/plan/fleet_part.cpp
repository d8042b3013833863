#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "plan/class_map.h"
#include "plan/fleet.h"
#include "plan/fleet_cache.h"
#include "plan/lower.h"
#include "plan/merge.h"
#include "plan/share.h"
#include "plan/side_index.h"
#include "plan/work.h"

namespace wb {
namespace {

// Pairs of boxes that are compared for one part: a few seconds.
constexpr uint64_t kMaxSteps = uint64_t{1} << 27;

// A worker of either side, for looking up its pieces of a tensor.
struct Place {
  const SideIndex* side = nullptr;
  const Fleet::Worker* worker = nullptr;
  size_t hint = 0;

  std::span<const uint32_t> pieces_of(uint32_t tensor) {
    return side->pieces_near(worker->member.family, tensor, &hint);
  }
  // In `moved` where the worker's piece is not that of its family's base.
  const Piece& piece(uint32_t p, Piece* moved) const {
    const LayoutFamily& family = side->family(worker->member.family);
    if (family.moves.empty() || family.moves[p].dim < 0) return family.base.pieces[p];
    *moved = family.piece(p, worker->member.index);
    return *moved;
  }
};

// Box::contains, with the ways that nearly all boxes go first.
bool covers(const Box& outer, const Box& inner) {
  for (int d = 0; d < outer.rank(); ++d) {
    const Progression& o = outer.dim(d);
    const Progression& i = inner.dim(d);
    if (o == i) continue;
    if (i.start < o.start || i.last() > o.last()) return false;
    if (o.step != 1) return outer.contains(inner);
  }
  return true;
}

class PartMaker {
 public:
  PartMaker(const Fleet& fleet, const FleetPlan& plan, uint32_t receiver, FleetCache* cache)
      : fleet_(fleet),
        plan_(plan),
        receiver_(receiver),
        cache_(cache),
        to_{&fleet.receiver_index(), &fleet.receivers()[receiver], 0} {}

  Result<FleetPart> make() {
    FleetPart part;
    part.inputs = plan_.report.inputs;
    part.receiver = receiver_;
    part.in_flight_bytes = budget();
    for (const Hop& hop : hops_of(plan_, receiver_)) {
      Draft& draft = drafts_[std::tuple(hop.stage, hop.from_peer, hop.from)];
      WB_RETURN_IF_ERROR(lower(hop, hop.from_peer, hop.from, &draft.reads));
      if (hop.from_peer) {
        WB_RETURN_IF_ERROR(lower(hop, false, hop.fallback, &draft.fallbacks[hop.fallback]));
      }
    }
    for (auto& [key, draft] : drafts_) {
      const auto& [stage, from_peer, from] = key;
      PartList& list = part.lists.emplace_back();
      list.from_peer = from_peer;
      list.worker = from;
      list.stage = stage;
      list.runs = draft.reads.joined();
      list.shapes.reserve(list.runs.size());
      for (const Run& run : list.runs) {
        list.bytes += run.length * run.count;
        list.reads += run.count;
        list.shapes.push_back(shape_run(run, plan_.options.costs));
        part.shape.add(run, list.shapes.back());
      }
      part.bytes += list.bytes;
      for (auto& [source, reads] : draft.fallbacks) {
        list.fallbacks.push_back(listed(source, &reads));
      }
    }
    rotate(&part.lists);
    return part;
  }

 private:
  // The runs of some hops. Those of each hop come merged.
  struct Reads {
    std::vector<Run> runs;
    size_t hops = 0;

    std::vector<Run> joined() {
      if (hops > 1) merge_runs(&runs);
      return std::move(runs);
    }
  };
  struct Draft {
    Reads reads;
    std::map<uint32_t, Reads> fallbacks;  // by source
  };

  static ReadList listed(uint32_t source, Reads* reads) {
    ReadList list;
    list.source = source;
    list.runs = reads->joined();
    for (const Run& run : list.runs) {
      list.bytes += run.length * run.count;
      list.reads += run.count;
    }
    return list;
  }

  Place place_of(bool peer, uint32_t worker) const {
    if (peer) return {&fleet_.receiver_index(), &fleet_.receivers()[worker], 0};
    return {&fleet_.source_index(), &fleet_.sources()[worker], 0};
  }

  Status lower(const Hop& hop, bool from_peer, uint32_t from, Reads* reads) {
    std::vector<Run>* out = &reads->runs;
    ++reads->hops;
    Place place = place_of(from_peer, from);
    if (cache_ == nullptr) {
      fresh_.clear();
      WB_RETURN_IF_ERROR(lower_range(hop, place, &fresh_));
      merge_runs(&fresh_);
      return append(fresh_, out);
    }
    const Digest key = key_of(hop, *place.worker);
    FleetCache::Runs runs = cache_->find_runs(key);
    if (runs == nullptr) {
      auto made = std::make_shared<std::vector<Run>>();
      WB_RETURN_IF_ERROR(lower_range(hop, place, made.get()));
      merge_runs(made.get());
      made->shrink_to_fit();
      runs = std::move(made);
      cache_->keep_runs(key, runs);
    }
    return append(*runs, out);
  }

  // Fallbacks count too: they take memory all the same.
  Status append(const std::vector<Run>& runs, std::vector<Run>* out) {
    runs_ += runs.size();
    if (runs_ > kMaxRuns) {
      return Status(Code::kUnsupported, "the part of " + to_.worker->name + " has more than " +
                                            std::to_string(kMaxRuns) + " runs")
          .with_peer(to_.worker->name);
    }
    out->insert(out->end(), runs.begin(), runs.end());
    return Status();
  }

  // Of all that the runs depend on: both layouts and placements, and the boxes of the range.
  Digest key_of(const Hop& hop, const Fleet::Worker& from) const {
    const Digest& table = fleet_.table().digest();
    const Digest& content = plan_.map->content(hop.byte_class);
    const Digest& to = to_.worker->digest;
    const uint64_t words[] = {table.low,       table.high,      content.low, content.high,
                              to.low,          to.high,         hop.begin,   hop.end,
                              from.digest.low, from.digest.high};
    return digest_of(std::as_bytes(std::span(words)));
  }

  Status lower_range(const Hop& hop, Place& from, std::vector<Run>* out) {
    Status status;
    plan_.map->for_each_segment(
        hop.byte_class, hop.begin, hop.end, [&](const ClassMap::Segment& segment) {
          if (!status.ok()) return;
          const uint32_t unit = segment.unit;
          const auto bytes = static_cast<uint64_t>(segment.box->size()) * unit;
          if (segment.begin == 0 && segment.end == bytes) {
            status = lower_box(segment.tensor, unit, *segment.box, &from, out);
            return;
          }
          boxes_.clear();
          boxes_of_range(*segment.box, segment.begin / unit, segment.end / unit, &boxes_);
          for (const Box& box : boxes_) {
            if (status.ok()) status = lower_box(segment.tensor, unit, box, &from, out);
          }
        });
    return status;
  }

  // Every home that the receiver has for the box is written.
  Status lower_box(uint32_t tensor, uint32_t unit, const Box& box, Place* from,
                   std::vector<Run>* out) {
    const std::span<const uint32_t> homes = to_.pieces_of(tensor);
    if (!work_.spend(homes.size())) return exhausted(tensor);
    for (const uint32_t p : homes) {
      Piece moved;
      const Piece& to = to_.piece(p, &moved);
      if (covers(to.box, box)) {
        WB_RETURN_IF_ERROR(lower_home(unit, box, to, from, out));
      } else if (const auto common = intersect(box, to.box)) {
        WB_RETURN_IF_ERROR(lower_home(unit, *common, to, from, out));
      }
    }
    return Status();
  }

  // The box may lie in several of the other's pieces, and in one of them more than once.
  Status lower_home(uint32_t unit, const Box& box, const Piece& to, Place* from,
                    std::vector<Run>* out) {
    const std::span<const uint32_t> pieces = from->pieces_of(to.tensor);
    Piece moved;
    if (pieces.size() == 1) {
      const Piece& have = from->piece(pieces[0], &moved);
      if (covers(have.box, box)) return lower_one(unit, box, have, to, *from, out);
    }
    rests_.assign(1, box);
    for (const uint32_t p : pieces) {
      if (rests_.empty()) break;
      if (!work_.spend(rests_.size())) return exhausted(to.tensor);
      const Piece& have = from->piece(p, &moved);
      next_.clear();
      for (const Box& rest : rests_) {
        const auto common = intersect(rest, have.box);
        if (!common) {
          next_.push_back(rest);
          continue;
        }
        WB_RETURN_IF_ERROR(lower_one(unit, *common, have, to, *from, out));
        subtract(rest, *common, &next_);
      }
      rests_.swap(next_);
    }
    if (rests_.empty()) return Status();
    const std::string& name = fleet_.table()[to.tensor].name;
    return Status(Code::kInternal, "the plan reads " + name + " from " + from->worker->name +
                                       ", which does not have it")
        .with_tensor(name)
        .with_peer(from->worker->name);
  }

  Status exhausted(uint32_t tensor) const {
    const std::string& name = fleet_.table()[tensor].name;
    return Work::exhausted("reading " + name).with_tensor(name);
  }

  Status lower_one(uint32_t unit, const Box& box, const Piece& have, const Piece& to,
                   const Place& from, std::vector<Run>* out) const {
    Status lowered =
        lower_share(Share{0, &have, &to, box}, unit, from.worker->placement[have.buffer],
                    to_.worker->placement[to.buffer], out);
    if (lowered.ok()) return lowered;
    const std::string& name = fleet_.table()[to.tensor].name;
    return std::move(lowered)
        .prefixed("reading " + name + " from " + from.worker->name + ": ")
        .with_tensor(name)
        .with_peer(from.worker->name);
  }

  // Lists stay in the order of stages. Inside a stage each receiver begins at another list, so that
  // no worker is read by all at once: neighbours differ by one, and those that are far apart (and
  // may be copies of each other) by more.
  void rotate(std::vector<PartList>* lists) const {
    const uint64_t receivers = fleet_.receivers().size();
    for (auto begin = lists->begin(); begin != lists->end();) {
      const auto end = std::find_if(
          begin, lists->end(), [&](const PartList& list) { return list.stage != begin->stage; });
      const auto count = static_cast<uint64_t>(end - begin);
      const uint64_t start = (receiver_ + receiver_ * count / receivers) % count;
      std::rotate(begin, begin + static_cast<ptrdiff_t>(start), end);
      begin = end;
    }
  }

  uint64_t budget() const {
    const Cluster& cluster = fleet_.cluster();
    const Seat& mine = cluster.receivers[receiver_];
    uint64_t sharing = 0;
    for (const Seat& seat : cluster.receivers) {
      sharing += seat.host == mine.host && seat.nic == mine.nic ? 1 : 0;
    }
    return std::max<uint64_t>(plan_.options.in_flight_bytes / std::max<uint64_t>(sharing, 1), 1);
  }

  const Fleet& fleet_;
  const FleetPlan& plan_;
  const uint32_t receiver_;
  FleetCache* cache_;
  Place to_;
  std::map<std::tuple<uint32_t, bool, uint32_t>, Draft> drafts_;
  std::vector<Box> boxes_, rests_, next_;
  std::vector<Run> fresh_;
  uint64_t runs_ = 0;
  Work work_{kMaxSteps};
};

}  // namespace

Result<FleetPart> make_part(const Fleet& fleet, const FleetPlan& plan, uint32_t receiver,
                            FleetCache* cache) {
  if (receiver >= fleet.receivers().size()) {
    return Status(Code::kInvalidArgument, "receiver " + std::to_string(receiver) + " of " +
                                              std::to_string(fleet.receivers().size()));
  }
  if (plan.fleet != fleet.digest()) {
    return Status(Code::kMismatch, "the plan was made from another fleet");
  }
  return PartMaker(fleet, plan, receiver, cache).make();
}

Result<Plan> plan_of_part(const Fleet& fleet, const FleetPart& part) {
  Plan plan;
  plan.inputs = part.inputs;
  plan.bytes = part.bytes;
  for (const PartList& list : part.lists) {
    if (list.from_peer) {
      return Status(Code::kUnsupported, "receiver " + fleet.receivers()[part.receiver].name +
                                            " reads from a peer in this plan");
    }
    plan.lists.push_back({list.worker, list.runs, list.bytes, list.reads});
  }
  std::sort(plan.lists.begin(), plan.lists.end(),
            [](const ReadList& a, const ReadList& b) { return a.source < b.source; });
  return plan;
}

}  // namespace wb
