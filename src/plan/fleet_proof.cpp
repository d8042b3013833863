#include "plan/fleet_proof.h"

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "plan/homes.h"
#include "plan/proof.h"
#include "plan/side_index.h"
#include "plan/writes.h"

namespace wb {
namespace {

using proof::Homes;
using proof::Write;

// More pieces than this are not kept prepared from one part to the next.
constexpr size_t kMaxKept = size_t{1} << 20;
// No plan has a longer way than source, first, sender, entry, member.
constexpr uint32_t kMaxStage = 7;

// One worker, written out, and where its pieces lie.
struct Worker {
  WorkerLayout layout;
  PlanWorker view;
  Homes needs;
  Homes held;
};

// Workers of both sides: a fleet's receivers are sources of each other too. Those with the same
// layout and placement are prepared once.
class Workers {
 public:
  explicit Workers(const Fleet& fleet) : fleet_(fleet) {}

  // The worker is numbered: sources, then receivers.
  Result<const Worker*> find(uint32_t number) {
    const bool source = number < fleet_.sources().size();
    const Fleet::Worker& worker =
        source ? fleet_.sources()[number]
               : fleet_.receivers()[number - static_cast<uint32_t>(fleet_.sources().size())];
    const Key key{source, worker.member.family, worker.member.index, worker.placement.data(),
                  worker.region_bytes.data()};
    const auto it = kept_.find(key);
    if (it != kept_.end()) return it->second.get();
    auto made = std::make_unique<Worker>();
    const SideIndex& side = source ? fleet_.source_index() : fleet_.receiver_index();
    const LayoutFamily& family = side.family(worker.member.family);
    made->layout = Side{{family}, {{0, worker.member.index}}}.layout(0);
    made->view = {worker.name, &made->layout, worker.placement, worker.region_bytes};
    const TensorTable& table = fleet_.table();
    if (!source) {
      WB_ASSIGN_OR_RETURN(made->needs, Homes::make(table, made->view, Homes::Group::kRegion));
    }
    WB_ASSIGN_OR_RETURN(made->held, Homes::make(table, made->view, Homes::Group::kRegionAndTensor));
    pieces_ += made->layout.pieces.size();
    return kept_.emplace(key, std::move(made)).first->second.get();
  }

  void forget_if_large() {
    if (pieces_ <= kMaxKept) return;
    kept_.clear();
    pieces_ = 0;
  }

 private:
  using Key = std::tuple<bool, uint32_t, int64_t, const Placement*, const uint64_t*>;
  const Fleet& fleet_;
  std::map<Key, std::unique_ptr<Worker>> kept_;
  size_t pieces_ = 0;
};

Status unproven(const Fleet& fleet, const FleetPart& part, const std::string& what) {
  const std::string& name = fleet.receivers()[part.receiver].name;
  return Status(Code::kUnproven, "part of " + name + ": " + what).with_peer(name);
}

class PartProver {
 public:
  PartProver(const Fleet& fleet, const FleetPart& part, Workers* workers)
      : fleet_(fleet), part_(part), workers_(*workers), work_(proof::kMaxSteps) {}

  Status prove() {
    sources_ = static_cast<uint32_t>(fleet_.sources().size());
    WB_RETURN_IF_ERROR(check_lists());
    WB_ASSIGN_OR_RETURN(const Worker* self, workers_.find(sources_ + part_.receiver));
    receiver_ = self;
    WB_RETURN_IF_ERROR(prove_as_planned());
    if (peers_ == 0) return Status();
    WB_RETURN_IF_ERROR(prove_from_sources());
    return prove_fallbacks_alike();
  }

 private:
  Status check_lists() {
    uint64_t bytes = 0;
    for (const PartList& list : part_.lists) {
      const size_t there = list.from_peer ? fleet_.receivers().size() : fleet_.sources().size();
      if (list.worker >= there) return fail("it reads from a worker that does not exist");
      if (list.from_peer && list.worker == part_.receiver) return fail("it reads from itself");
      if (list.from_peer != (list.stage > 0) || list.stage > kMaxStage) {
        return fail("a list of stage " + std::to_string(list.stage) + " from a " +
                    (list.from_peer ? "peer" : "source"));
      }
      if (list.from_peer == list.fallbacks.empty()) {
        return fail("a list from a peer without fallback, or from a source with one");
      }
      if (list.shapes.size() != list.runs.size()) return fail("runs without shapes");
      const auto sum = checked_add(bytes, list.bytes);
      if (!sum) return fail("2^64 bytes or more");
      bytes = *sum;
      if (!list.from_peer) continue;
      ++peers_;
      uint64_t again = 0;
      for (const ReadList& fallback : list.fallbacks) {
        if (fallback.source >= fleet_.sources().size()) {
          return fail("a fallback to a source that does not exist");
        }
        const auto more = checked_add(again, fallback.bytes);
        if (!more) return fail("a fallback of 2^64 bytes or more");
        again = *more;
      }
      if (again != list.bytes) return fail("a fallback of another size than what it stands for");
    }
    if (bytes != part_.bytes) {
      return fail("it says " + std::to_string(part_.bytes) + " bytes, its lists have " +
                  std::to_string(bytes));
    }
    if (part_.in_flight_bytes == 0) return fail("no byte may be in flight");
    return Status();
  }

  Status prove_as_planned() {
    std::vector<ReadList> lists;
    for (const PartList& list : part_.lists) {
      lists.push_back({list.from_peer ? sources_ + list.worker : list.worker, list.runs, list.bytes,
                       list.reads});
    }
    return prove_lists(lists);
  }

  // Every byte from sources, as if no peer were there.
  Status prove_from_sources() {
    std::vector<ReadList> lists;
    for (const PartList& list : part_.lists) {
      if (!list.from_peer) lists.push_back({list.worker, list.runs, list.bytes, list.reads});
      lists.insert(lists.end(), list.fallbacks.begin(), list.fallbacks.end());
    }
    return prove_lists(lists);
  }

  Status prove_lists(const std::vector<ReadList>& lists) {
    std::vector<proof::Prepared> others(sources_ + fleet_.receivers().size());
    std::vector<const ReadList*> pointers;
    for (const ReadList& list : lists) {
      WB_ASSIGN_OR_RETURN(const Worker* worker, workers_.find(list.source));
      others[list.source] = {&worker->view, nullptr, &worker->held};
      pointers.push_back(&list);
    }
    const proof::Prepared self{&receiver_->view, &receiver_->needs, nullptr};
    return proof::prove_lists(fleet_.table(), self, others, pointers, &work_);
  }

  // All lists are inside the need and of one size with their fallbacks; no fallback meets another
  // list or its fallback. So each writes what its list writes.
  Status prove_fallbacks_alike() {
    std::vector<Write> writes;
    uint32_t group = 0;
    for (const PartList& list : part_.lists) {
      add(list.runs, group, &writes);
      for (const ReadList& fallback : list.fallbacks) add(fallback.runs, group, &writes);
      ++group;
    }
    WB_ASSIGN_OR_RETURN(const auto twice,
                        proof::written_twice(&writes, proof::Among::kGroups, &work_));
    if (twice) {
      return fail("a fallback writes byte " + std::to_string(twice->byte) + " of region " +
                  std::to_string(twice->region) + ", which another list writes");
    }
    return Status();
  }

  // Bounds were proved before.
  void add(const std::vector<Run>& runs, uint32_t group, std::vector<Write>* writes) const {
    for (const Run& run : runs) {
      const auto span =
          proof::span_of_run(run, false, receiver_->view.region_bytes[run.local_region]);
      writes->push_back({&run, *span, group});
    }
  }

  Status fail(const std::string& what) const { return unproven(fleet_, part_, what); }

  const Fleet& fleet_;
  const FleetPart& part_;
  Workers& workers_;
  Work work_;
  uint32_t sources_ = 0;
  size_t peers_ = 0;
  const Worker* receiver_ = nullptr;
};

// What is read from a peer at stage s is what the peer wrote at stage s - 1: it does not meet what
// it writes at any other. (That it is among what the peer needs, so that somebody writes it, was
// proved with the parts.) Stages grow along every way, so there are no cycles.
class Passing {
 public:
  Passing(const Fleet& fleet, std::span<const FleetPart> parts) : fleet_(fleet), parts_(parts) {}

  Status prove() {
    std::map<std::pair<uint32_t, uint32_t>, std::vector<const PartList*>> read;  // peer, stage
    for (const FleetPart& part : parts_) {
      for (const PartList& list : part.lists) {
        if (list.from_peer) read[{list.worker, list.stage}].push_back(&list);
      }
    }
    for (const auto& [key, lists] : read) {
      const auto& [peer, stage] = key;
      WB_RETURN_IF_ERROR(prove_one(parts_[peer], stage, lists));
    }
    return Status();
  }

 private:
  Status prove_one(const FleetPart& peer, uint32_t stage,
                   const std::vector<const PartList*>& read) {
    const auto& regions = fleet_.receivers()[peer.receiver].region_bytes;
    std::vector<Run> taken;
    for (const PartList* list : read) {
      for (const Run& run : list->runs) {
        Run there;
        there.local_region = run.remote_region;
        there.local_offset = run.remote_offset;
        there.local_pitch = run.remote_pitch;
        there.length = run.length;
        there.count = run.count;
        taken.push_back(there);
      }
    }
    std::vector<Write> writes;
    const auto add = [&](const Run& run, uint32_t group) {
      writes.push_back({&run, *proof::span_of_run(run, false, regions[run.local_region]), group});
    };
    for (const PartList& list : peer.lists) {
      if (list.stage + 1 == stage) continue;
      for (const Run& run : list.runs) add(run, 0);
    }
    if (writes.empty()) return Status();
    for (const Run& run : taken) add(run, 1);
    Work work(proof::kMaxSteps);
    WB_ASSIGN_OR_RETURN(const auto twice,
                        proof::written_twice(&writes, proof::Among::kGroups, &work));
    if (!twice) return Status();
    return unproven(fleet_, peer,
                    "byte " + std::to_string(twice->byte) + " of region " +
                        std::to_string(twice->region) + " is read from it at stage " +
                        std::to_string(stage) + ", and it does not get it at the one before");
  }

  const Fleet& fleet_;
  const std::span<const FleetPart> parts_;
};

Status check_receiver(const Fleet& fleet, const FleetPart& part) {
  if (part.receiver < fleet.receivers().size()) return Status();
  return Status(Code::kUnproven, "a part of receiver " + std::to_string(part.receiver) + " of " +
                                     std::to_string(fleet.receivers().size()));
}

}  // namespace

Status prove_part(const Fleet& fleet, const FleetPart& part) {
  WB_RETURN_IF_ERROR(check_receiver(fleet, part));
  Workers workers(fleet);
  return PartProver(fleet, part, &workers).prove();
}

Status prove_fleet(const Fleet& fleet, std::span<const FleetPart> parts) {
  if (parts.size() != fleet.receivers().size()) {
    return Status(Code::kUnproven, std::to_string(parts.size()) + " parts of " +
                                       std::to_string(fleet.receivers().size()) + " receivers");
  }
  Workers workers(fleet);
  for (size_t r = 0; r < parts.size(); ++r) {
    const FleetPart& part = parts[r];
    WB_RETURN_IF_ERROR(check_receiver(fleet, part));
    if (part.receiver != r) return unproven(fleet, part, "it stands in another's place");
    if (part.inputs != parts.front().inputs) {
      return Status(Code::kMismatch, "the parts of " + fleet.receivers()[r].name + " and " +
                                         fleet.receivers().front().name +
                                         " were made from different inputs: " + part.inputs.hex() +
                                         " and " + parts.front().inputs.hex())
          .with_peer(fleet.receivers()[r].name);
    }
    WB_RETURN_IF_ERROR(PartProver(fleet, part, &workers).prove());
    workers.forget_if_large();
  }
  return Passing(fleet, parts).prove();
}

}  // namespace wb
