#include "fleet_world.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "layout/dtype.h"

namespace wb::test {
namespace {

using ByteId = std::tuple<uint32_t, int64_t, uint32_t>;  // tensor, element, byte of the element
using Address = std::pair<uint32_t, uint64_t>;           // region, byte
using Image = std::map<Address, std::set<ByteId>>;

template <typename Visit>
void for_each_byte(const TensorTable& table, const OwnedWorker& worker, Visit visit) {
  for (const Piece& piece : worker.layout.pieces) {
    const std::vector<int64_t> shape = table[piece.tensor].unit_shape();
    const uint32_t unit = dtype_info(table[piece.tensor].dtype).unit_bytes;
    for (int64_t i = 0; i < piece.box.size(); ++i) {
      int64_t rest = i;
      int64_t element = 0;
      int64_t scale = 1;
      int64_t at = piece.offset;
      for (int d = piece.box.rank() - 1; d >= 0; --d) {
        const Progression& p = piece.box.dim(d);
        const int64_t index = rest % p.count;
        rest /= p.count;
        element += (p.start + index * p.step) * scale;
        scale *= shape[static_cast<size_t>(d)];
        at += index * piece.stride[static_cast<size_t>(d)];
      }
      const Placement& place = worker.placement[piece.buffer];
      for (uint32_t b = 0; b < unit; ++b) {
        visit(ByteId(piece.tensor, element, b),
              Address(place.region, place.offset + static_cast<uint64_t>(at) + b));
      }
    }
  }
}

Image image_of(const TensorTable& table, const OwnedWorker& worker) {
  Image image;
  for_each_byte(table, worker, [&](const ByteId& id, const Address& at) { image[at].insert(id); });
  return image;
}

class Executor {
 public:
  explicit Executor(const FleetJob& job) {
    const Fleet& fleet = *job.fleet;
    for (const Fleet::Worker& w : fleet.sources()) {
      sources_.push_back(image_of(fleet.table(), job.world.sources[w.input]));
    }
    for (const Fleet::Worker& w : fleet.receivers()) {
      needs_.push_back(image_of(fleet.table(), job.world.receivers[w.input]));
    }
    written_.resize(needs_.size());
  }

  std::string run(const std::vector<FleetPart>& parts) {
    if (parts.size() != needs_.size()) return "not one part per receiver";
    for (uint32_t stage = 0; stage < 8; ++stage) {
      std::vector<std::set<Address>> before = written_;
      for (const FleetPart& part : parts) {
        uint64_t bytes = 0;
        for (const PartList& list : part.lists) {
          bytes += list.bytes;
          if (list.stage != stage) continue;
          if ((list.stage == 0) == list.from_peer) return "a stage that does not fit its sender";
          std::set<Address> wrote;
          std::string fault = read(part.receiver, list.from_peer, list.worker, list.runs,
                                   list.bytes, list.reads, before, &wrote);
          if (!fault.empty()) return fault;
          for (const Address& at : wrote) {
            if (!written_[part.receiver].insert(at).second) return "a byte written twice";
          }
          fault = fallbacks(part.receiver, list, before, wrote);
          if (!fault.empty()) return fault;
          done_ += 1;
        }
        if (bytes != part.bytes) return "a part's bytes do not add up";
      }
    }
    size_t lists = 0;
    for (size_t r = 0; r < needs_.size(); ++r) {
      lists += parts[r].lists.size();
      if (written_[r].size() != needs_[r].size()) return "a needed byte is not written";
    }
    return lists == done_ ? "" : "a list of a stage that does not exist";
  }

 private:
  std::string fallbacks(uint32_t receiver, const PartList& list,
                        const std::vector<std::set<Address>>& before,
                        const std::set<Address>& wrote) {
    if (!list.from_peer) return list.fallbacks.empty() ? "" : "a fallback for a source";
    std::set<Address> again;
    for (const ReadList& fallback : list.fallbacks) {
      std::set<Address> one;
      const std::string fault = read(receiver, false, fallback.source, fallback.runs,
                                     fallback.bytes, fallback.reads, before, &one);
      if (!fault.empty()) return "fallback: " + fault;
      for (const Address& at : one) {
        if (!again.insert(at).second) return "a fallback writes a byte twice";
      }
    }
    return again == wrote ? "" : "a fallback writes other bytes";
  }

  std::string read(uint32_t receiver, bool from_peer, uint32_t from, const std::vector<Run>& runs,
                   uint64_t bytes, uint64_t reads, const std::vector<std::set<Address>>& before,
                   std::set<Address>* wrote) {
    if (from >= (from_peer ? needs_ : sources_).size()) return "no such worker";
    if (from_peer && from == receiver) return "a receiver reads from itself";
    const Image& remote_image = from_peer ? needs_[from] : sources_[from];
    for (const Run& run : runs) {
      for (uint64_t row = 0; row < run.count; ++row) {
        for (uint64_t b = 0; b < run.length; ++b) {
          const auto add = [&](uint64_t offset, int64_t pitch) {
            return offset + row * static_cast<uint64_t>(pitch) + b;
          };
          const Address remote(run.remote_region, add(run.remote_offset, run.remote_pitch));
          const Address local(run.local_region, add(run.local_offset, run.local_pitch));
          if (from_peer && !before[from].contains(remote)) return "a peer does not have it yet";
          const auto there = remote_image.find(remote);
          const auto here = needs_[receiver].find(local);
          if (there == remote_image.end()) return "reads what no piece has";
          if (here == needs_[receiver].end()) return "writes what nobody needs";
          if (!there->second.contains(*here->second.begin())) return "reads another element";
          if (!wrote->insert(local).second) return "a list writes a byte twice";
          --bytes;
        }
        --reads;
      }
    }
    return bytes == 0 && reads == 0 ? "" : "a list's totals are wrong";
  }

  std::vector<Image> sources_, needs_;
  std::vector<std::set<Address>> written_;
  size_t done_ = 0;
};

}  // namespace

FleetJob::FleetJob(FleetWorld w) : world(std::move(w)) {
  FleetSide fleet_sides[2];
  const std::vector<OwnedWorker>* workers[2] = {&world.sources, &world.receivers};
  const std::vector<Seat>* seats[2] = {&world.cluster.sources, &world.cluster.receivers};
  for (size_t s = 0; s < 2; ++s) {
    SideBuilder builder;
    for (size_t i = 0; i < workers[s]->size(); ++i) {
      const OwnedWorker& worker = (*workers[s])[i];
      builder.add(worker.layout);
      fleet_sides[s].workers.push_back(
          {worker.name, worker.placement, worker.region_bytes, (*seats[s])[i]});
    }
    sides[s] = builder.take();
    fleet_sides[s].layouts = &sides[s];
  }
  auto made = Fleet::make(world.table, fleet_sides[0], fleet_sides[1], world.cluster);
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.status().to_string().c_str());
    std::abort();
  }
  fleet = std::make_unique<Fleet>(std::move(made).value());
}

Result<std::vector<FleetPart>> FleetJob::parts(const FleetPlan& plan) const {
  std::vector<FleetPart> parts;
  for (uint32_t r = 0; r < fleet->receivers().size(); ++r) {
    WB_ASSIGN_OR_RETURN(FleetPart part, make_part(*fleet, plan, r));
    parts.push_back(std::move(part));
  }
  return parts;
}

std::string fault_of(const FleetJob& job, const std::vector<FleetPart>& parts) {
  return Executor(job).run(parts);
}

FleetCount count(const FleetJob& job) {
  FleetCount out;
  std::map<ByteId, std::pair<std::set<uint32_t>, std::set<uint32_t>>> bytes;
  const Fleet& fleet = *job.fleet;
  for (uint32_t s = 0; s < fleet.sources().size(); ++s) {
    for_each_byte(fleet.table(), job.world.sources[fleet.sources()[s].input],
                  [&](const ByteId& id, const Address&) {
                    bytes[id].first.insert(s);
                    ++out.stored;
                  });
  }
  for (uint32_t r = 0; r < fleet.receivers().size(); ++r) {
    for_each_byte(fleet.table(), job.world.receivers[fleet.receivers()[r].input],
                  [&](const ByteId& id, const Address&) {
                    bytes[id].second.insert(r);
                    ++out.needed;
                  });
  }
  std::map<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>, uint64_t> classes;
  for (const auto& [id, sets] : bytes) {
    const auto& [holders, needers] = sets;
    if (needers.empty()) continue;
    ++out.distinct;
    if (holders.empty()) {
      ++out.absent;
      continue;
    }
    ++classes[{{holders.begin(), holders.end()}, {needers.begin(), needers.end()}}];
  }
  for (const auto& [sets, size] : classes) {
    out.sets.push_back(sets);
    out.bytes.push_back(size);
  }
  return out;
}

}  // namespace wb::test
