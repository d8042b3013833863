#include "plan/fleet.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/checked.h"
#include "plan/side_index.h"

namespace wb {
namespace {

// Twice an offset still fits in int64: lowering computes one row beyond a run's last.
constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 62;
constexpr size_t kMaxWorkers = size_t{1} << 20;

Status refused(std::string what) { return Status(Code::kInvalidArgument, std::move(what)); }

// Shorter first, so that numbered names come in the order of their numbers.
bool name_before(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

template <typename T>
std::vector<uint32_t> sorted_by_name(const std::vector<T>& things) {
  std::vector<uint32_t> order(things.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return name_before(things[a].name, things[b].name); });
  return order;
}

Status check_worker(const FleetWorker& worker, const WorkerLayout& layout, const Cluster& cluster) {
  const auto fail = [&](const std::string& what) {
    return refused("worker " + worker.name + ": " + what).with_peer(worker.name);
  };
  if (worker.placement.size() != layout.buffers.size()) {
    return fail(std::to_string(worker.placement.size()) + " placements for " +
                std::to_string(layout.buffers.size()) + " buffers");
  }
  for (const uint64_t bytes : worker.region_bytes) {
    if (bytes > kMaxRegionBytes) return fail("a region of more than 2^62 bytes");
  }
  for (size_t b = 0; b < layout.buffers.size(); ++b) {
    const Placement& place = worker.placement[b];
    if (place.region >= worker.region_bytes.size()) {
      return fail("buffer " + layout.buffers[b].name + " lies in region " +
                  std::to_string(place.region) + " of " +
                  std::to_string(worker.region_bytes.size()));
    }
    if (!range_inside(place.offset, layout.buffers[b].bytes, worker.region_bytes[place.region])) {
      return fail("buffer " + layout.buffers[b].name + " ends outside its region");
    }
  }
  if (worker.seat.host >= cluster.hosts.size() ||
      worker.seat.nic >= cluster.hosts[worker.seat.host].nics.size()) {
    return fail("it sits at NIC " + std::to_string(worker.seat.nic) + " of host " +
                std::to_string(worker.seat.host) + ", which the cluster does not have");
  }
  return Status();
}

Status check_hosts(const Cluster& cluster) {
  for (const Host& host : cluster.hosts) {
    if (host.inside_bytes_per_second == 0)
      return refused("host " + host.name + " has speed 0 inside");
    for (const Nic& nic : host.nics) {
      if (nic.bytes_per_second == 0) return refused("host " + host.name + " has a NIC of speed 0");
    }
  }
  return Status();
}

// A sum over a layout's pieces that does not depend on their order, nor on which member of a family
// is its base: starts enter linearly, so that a member's sum is the base's and index times the
// moves'.
struct FamilyDigest {
  uint64_t form = 0;  // buffers, extras, and all of the pieces but the starts of their boxes
  uint64_t start[2] = {0, 0};
  uint64_t move[2] = {0, 0};
};

uint64_t hash_buffers(const WorkerLayout& layout) {
  Hasher hasher;
  hasher.add(uint64_t{layout.buffers.size()});
  for (const BufferInfo& buffer : layout.buffers) add_to(&hasher, buffer);
  for (const Extra& extra : layout.extras) add_to(&hasher, extra);
  return hasher.digest().low;
}

FamilyDigest digest_family(const LayoutFamily& family) {
  FamilyDigest digest;
  digest.form = hash_buffers(family.base);
  std::vector<int64_t> words;
  for (size_t p = 0; p < family.base.pieces.size(); ++p) {
    const Piece& piece = family.base.pieces[p];
    words.assign({piece.tensor, piece.buffer, piece.offset, piece.box.rank()});
    for (int d = 0; d < piece.box.rank(); ++d) {
      const Progression& dim = piece.box.dim(d);
      words.insert(words.end(), {dim.count, dim.step, piece.stride[static_cast<size_t>(d)]});
    }
    const Digest hash = digest_of(std::as_bytes(std::span(words)));
    digest.form += hash.low ^ (hash.high >> 1);
    // Odd factors: a difference in one start always shows.
    uint64_t factor[2] = {hash.low | 1, hash.high | 1};
    const Move move = family.moves.empty() ? Move{} : family.moves[p];
    for (int d = 0; d < piece.box.rank(); ++d) {
      for (int lane = 0; lane < 2; ++lane) {
        digest.start[lane] += factor[lane] * static_cast<uint64_t>(piece.box.dim(d).start);
        if (d == move.dim) digest.move[lane] += factor[lane] * static_cast<uint64_t>(move.step);
        factor[lane] *= 0x9E3779B97F4A7C15u;
      }
    }
  }
  return digest;
}

struct PlacementKey {
  const void* placement;
  size_t placements;
  const void* regions;
  size_t region_count;
  bool operator==(const PlacementKey&) const = default;
};

// Workers often share one placement: hashed once.
class PlacementHasher {
 public:
  Digest hash(const FleetWorker& worker) {
    const PlacementKey key{worker.placement.data(), worker.placement.size(),
                           worker.region_bytes.data(), worker.region_bytes.size()};
    if (!known_ || !(key == last_)) {
      std::vector<uint64_t> words;
      for (const Placement& place : worker.placement) {
        words.push_back(place.region);
        words.push_back(place.offset);
      }
      words.push_back(worker.placement.size());
      words.insert(words.end(), worker.region_bytes.begin(), worker.region_bytes.end());
      digest_ = digest_of(std::as_bytes(std::span(words)));
      last_ = key;
      known_ = true;
    }
    return digest_;
  }

 private:
  bool known_ = false;
  PlacementKey last_{};
  Digest digest_;
};

class Maker {
 public:
  Maker(const TensorTable& table, const Cluster& cluster) : table_(table), given_(cluster) {}

  Status sort_hosts(Cluster* out) {
    WB_RETURN_IF_ERROR(check_hosts(given_));
    const std::vector<uint32_t> order = sorted_by_name(given_.hosts);
    place_of_host_.resize(order.size());
    for (uint32_t i = 0; i < order.size(); ++i) {
      place_of_host_[order[i]] = i;
      out->hosts.push_back(given_.hosts[order[i]]);
      if (i > 0 && out->hosts[i - 1].name == out->hosts[i].name) {
        return refused("two hosts are named " + out->hosts[i].name);
      }
    }
    number_domains(out);
    return Status();
  }

  Status sort_workers(const FleetSide& side, const char* what, std::vector<Fleet::Worker>* workers,
                      std::vector<Seat>* seats) {
    if (side.workers.empty()) return refused(std::string("there is no ") + what);
    if (side.workers.size() > kMaxWorkers || side.workers.size() != side.layouts->size()) {
      return refused(std::to_string(side.workers.size()) + " " + what + "s with " +
                     std::to_string(side.layouts->size()) + " layouts");
    }
    for (const uint32_t w : sorted_by_name(side.workers)) {
      const FleetWorker& worker = side.workers[w];
      const SideMember member = side.layouts->members[w];
      if (!workers->empty() && workers->back().name == worker.name) {
        return refused("two workers are named " + worker.name).with_peer(worker.name);
      }
      WB_RETURN_IF_ERROR(check_worker(worker, side.layouts->families[member.family].base, given_));
      workers->push_back({worker.name, member, w, {}, worker.placement, worker.region_bytes});
      seats->push_back({place_of_host_[worker.seat.host], worker.seat.nic});
    }
    hash_side(side, workers, *seats);
    return Status();
  }

  Digest digest(const Cluster& cluster) {
    hasher_.add(table_.digest().low).add(table_.digest().high);
    hasher_.add(uint64_t{cluster.hosts.size()});
    for (const Host& host : cluster.hosts) {
      hasher_.add(std::string_view(host.name)).add(host.inside_bytes_per_second);
      hasher_.add(uint64_t{host.domain}).add(uint64_t{host.nics.size()});
      for (const Nic& nic : host.nics) {
        hasher_.add(nic.bytes_per_second).add(uint64_t{nic.full_duplex}).add(uint64_t{nic.numa});
      }
    }
    return hasher_.digest();
  }

 private:
  // Numbers of domains are names only: count them in the order of the hosts.
  static void number_domains(Cluster* cluster) {
    std::unordered_map<uint32_t, uint32_t> numbers{{0, 0}};  // 0 is no domain
    for (Host& host : cluster->hosts) {
      host.domain =
          numbers.emplace(host.domain, static_cast<uint32_t>(numbers.size())).first->second;
    }
  }

  void hash_side(const FleetSide& side, std::vector<Fleet::Worker>* workers,
                 const std::vector<Seat>& seats) {
    std::vector<FamilyDigest> families;
    for (const LayoutFamily& family : side.layouts->families) {
      families.push_back(digest_family(family));
    }
    PlacementHasher placements;
    hasher_.add(uint64_t{workers->size()});
    for (size_t i = 0; i < workers->size(); ++i) {
      Fleet::Worker& worker = (*workers)[i];
      const FamilyDigest& family = families[worker.member.family];
      const auto index = static_cast<uint64_t>(worker.member.index);
      const Digest placement = placements.hash(side.workers[worker.input]);
      const uint64_t words[] = {family.form, family.start[0] + index * family.move[0],
                                family.start[1] + index * family.move[1], placement.low,
                                placement.high};
      worker.digest = digest_of(std::as_bytes(std::span(words)));
      hasher_.add(std::string_view(worker.name));
      hasher_.add(worker.digest.low).add(worker.digest.high);
      hasher_.add(uint64_t{seats[i].host}).add(uint64_t{seats[i].nic});
    }
  }

  const TensorTable& table_;
  const Cluster& given_;
  std::vector<uint32_t> place_of_host_;
  Hasher hasher_;
};

}  // namespace

PackedBuffers pack_buffers(const WorkerLayout& layout) {
  constexpr uint64_t kAlignment = 512;
  PackedBuffers packed;
  uint64_t offset = 0;
  for (const BufferInfo& buffer : layout.buffers) {
    packed.placement.push_back({0, offset});
    offset = round_up(offset + buffer.bytes, kAlignment);
  }
  packed.region_bytes.push_back(offset);
  return packed;
}

Cluster plain_cluster(std::vector<FleetWorker>* sources, std::vector<FleetWorker>* receivers,
                      uint32_t per_host) {
  constexpr Nic kNic{50'000'000'000, true, 0};
  constexpr uint64_t kInside = 450'000'000'000;
  Cluster cluster;
  const auto seat = [&](std::vector<FleetWorker>* workers, const char* name) {
    const size_t first = cluster.hosts.size();
    for (size_t w = 0; w < workers->size(); ++w) {
      const auto host = static_cast<uint32_t>(first + w / per_host);
      if (host == cluster.hosts.size()) {
        cluster.hosts.push_back({name + std::to_string(w / per_host), {}, kInside, 0});
      }
      (*workers)[w].seat = {host, static_cast<uint32_t>(cluster.hosts[host].nics.size())};
      cluster.hosts[host].nics.push_back(kNic);
    }
  };
  per_host = std::max(per_host, 1u);
  seat(sources, "trainer-host-");
  seat(receivers, "rollout-host-");
  return cluster;
}

Result<Fleet> Fleet::make(const TensorTable& table, const FleetSide& sources,
                          const FleetSide& receivers, const Cluster& cluster) {
  Fleet fleet;
  fleet.table_ = &table;
  Maker maker(table, cluster);
  WB_RETURN_IF_ERROR(maker.sort_hosts(&fleet.cluster_));
  WB_RETURN_IF_ERROR(
      maker.sort_workers(sources, "source", &fleet.sources_, &fleet.cluster_.sources));
  WB_RETURN_IF_ERROR(
      maker.sort_workers(receivers, "receiver", &fleet.receivers_, &fleet.cluster_.receivers));
  fleet.digest_ = maker.digest(fleet.cluster_);
  const auto index = [&](const Side& side, const std::vector<Worker>& workers) {
    std::vector<SideMember> members;
    for (const Worker& worker : workers) members.push_back(worker.member);
    return std::make_shared<const SideIndex>(side, members, table.size());
  };
  fleet.source_index_ = index(*sources.layouts, fleet.sources_);
  fleet.receiver_index_ = index(*receivers.layouts, fleet.receivers_);
  return fleet;
}

}  // namespace wb
