#include "plan/simulate.h"

#include <algorithm>
#include <map>
#include <string>

#include "plan/flow_network.h"
#include "plan/topology.h"

namespace wb {
namespace {

static_assert(kLinks <= FlowHistory::kKinds);

// Averages over equal parts of the time.
std::vector<Usage> usage_of(const FlowNetwork& network, const FlowHistory& history,
                            uint32_t samples) {
  std::vector<Usage> usage;
  for (uint32_t link = 0; link < kLinks; ++link) {
    const double capacity = network.capacity(link);
    if (capacity > 0) {
      usage.push_back({static_cast<Link>(link), capacity, std::vector<double>(samples, 0)});
    }
  }
  if (history.seconds <= 0 || samples == 0) return usage;
  const double width = history.seconds / samples;
  double begin = 0;
  for (const FlowHistory::Epoch& epoch : history.epochs) {
    const double end = std::min(epoch.end, history.seconds);
    auto first = static_cast<size_t>(begin / width);
    for (size_t s = first; s < samples && static_cast<double>(s) * width < end; ++s) {
      const double from = std::max(begin, static_cast<double>(s) * width);
      const double to = std::min(end, static_cast<double>(s + 1) * width);
      for (Usage& each : usage) {
        each.part[s] += epoch.used[static_cast<size_t>(each.link)] / each.capacity *
                        std::max(0.0, to - from) / width;
      }
    }
    begin = end;
  }
  return usage;
}

Status outside(const char* what, uint32_t index) {
  return Status(Code::kInvalidArgument,
                std::string(what) + " " + std::to_string(index) + " is not in the cluster");
}

// The plan's transfers, cut into pieces so that what is passed on flows as a pipeline.
class PlanFlows {
 public:
  PlanFlows(const Cluster& cluster, const Topology& topology, double delay,
            const SimulationOptions& options, FlowNetwork* network)
      : topology_(topology), delay_(delay), options_(options), network_(network) {
    const uint32_t at_once = options.at_once;
    for (size_t r = 0; r < cluster.receivers.size(); ++r) {
      lanes_.push_back({network->add_lane(at_once), network->add_lane(at_once),
                        network->add_resource(1, static_cast<uint32_t>(Link::kReading))});
    }
    pieces_.resize(cluster.receivers.size());
    total_.resize(cluster.receivers.size());
    transfers_of_.resize(cluster.receivers.size());
  }

  // Transfers of lower stages first, whoever they are of, so that what is waited for is there.
  Status add(std::span<const Transfer> transfers) {
    std::vector<uint32_t> order(transfers.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return transfers[a].stage < transfers[b].stage;
    });
    for (const Transfer& transfer : transfers) {
      if (transfer.from_peer) continue;
      total_[transfer.to] += transfer.bytes;
      ++transfers_of_[transfer.to];
    }
    for (const uint32_t i : order) WB_RETURN_IF_ERROR(add_one(transfers[i]));
    return Status();
  }

  struct Piece {
    uint32_t flow = 0;
    bool from_peer = false;
    uint32_t from = 0;
    uint32_t stage = 0;
    double bytes = 0;
    double part = 0;  // of its transfer that has arrived when it ends
  };
  const std::vector<std::vector<Piece>>& pieces() const { return pieces_; }  // by receiver

 private:
  struct Lanes {
    uint32_t sources = 0;
    uint32_t peers = 0;
    uint32_t reading = 0;  // its own work: one second a second
  };

  Status add_one(const Transfer& transfer) {
    if (transfer.bytes == 0) return Status();
    const uint32_t chunks = std::max(options_.chunks, 1u);
    // Pieces of about what the receiver reads from sources over `chunks`; from a peer always
    // `chunks`, since each waits for its part of what the peer reads.
    const uint64_t size = std::max<uint64_t>(1, total_[transfer.to] / chunks);
    const uint64_t count =
        transfer.from_peer ? chunks
                           : std::clamp<uint64_t>((transfer.bytes + size - 1) / size, 1, chunks);
    NetworkFlow flow;
    flow.bytes = static_cast<double>(transfer.bytes) / static_cast<double>(count);
    flow.uses = topology_.path({transfer.from_peer, transfer.from}, {true, transfer.to});
    const Lanes& lanes = lanes_[transfer.to];
    flow.lane = transfer.from_peer ? lanes.peers : lanes.sources;
    if (transfer.overhead_ps != 0) {
      flow.uses.push_back({lanes.reading, static_cast<double>(transfer.overhead_ps) * 1e-12 /
                                              static_cast<double>(transfer.bytes)});
    }
    std::vector<const Piece*> had;
    double had_bytes = 0;
    if (transfer.from_peer) {
      for (const Piece& piece : pieces_[transfer.from]) {
        if (piece.stage >= transfer.stage) continue;
        had.push_back(&piece);
        had_bytes += piece.bytes;
      }
      // The order in which they end: one transfer after the other, or all side by side.
      if (options_.at_once == 0) {
        std::stable_sort(had.begin(), had.end(),
                         [](const Piece* a, const Piece* b) { return a->part < b->part; });
      }
    }
    const size_t side_by_side =
        options_.at_once != 0 ? options_.at_once
                              : transfers_of_[transfer.from_peer ? transfer.from : transfer.to];
    if (transfer.from_peer && had.empty()) {
      return Status(Code::kInvalidArgument,
                    "receiver " + std::to_string(transfer.to) + " waits for receiver " +
                        std::to_string(transfer.from) + ", which has nothing before it");
    }
    size_t next = 0;
    double ready = 0;
    std::vector<Piece> added;
    for (uint64_t k = 0; k < count; ++k) {
      NetworkFlow piece = flow;
      piece.delay = k == 0 ? delay_ : 0;
      if (k > 0) piece.after.push_back(added.back().flow);
      const double wanted = had_bytes * static_cast<double>(k + 1) / static_cast<double>(count);
      while (next < had.size() && ready < wanted * (1 - 1e-9)) ready += had[next++]->bytes;
      // Pieces end almost in order: the last few that run at the same time are waited for.
      const size_t back = std::min<size_t>(next, side_by_side);
      for (size_t i = next - back; i < next; ++i) piece.after.push_back(had[i]->flow);
      added.push_back({network_->add_flow(std::move(piece)), transfer.from_peer, transfer.from,
                       transfer.stage, flow.bytes,
                       static_cast<double>(k + 1) / static_cast<double>(count)});
    }
    auto& own = pieces_[transfer.to];
    own.insert(own.end(), added.begin(), added.end());
    return Status();
  }

  const Topology& topology_;
  const double delay_;
  const SimulationOptions& options_;
  FlowNetwork* network_;
  std::vector<Lanes> lanes_;
  std::vector<std::vector<Piece>> pieces_;
  std::vector<uint64_t> total_;       // bytes from sources
  std::vector<size_t> transfers_of_;  // from sources
};

// Receivers that reach each other without a NIC, and the NICs that they have together.
struct Unit {
  uint64_t id = 0;
  std::vector<uint32_t> receivers;
  std::vector<Seat> nics;
};

std::vector<Unit> units_of(const Cluster& cluster, const Topology& topology) {
  std::vector<Unit> units;
  std::map<uint64_t, size_t> by_id;
  for (uint32_t r = 0; r < cluster.receivers.size(); ++r) {
    const Seat& seat = cluster.receivers[r];
    const uint64_t id = topology.unit(seat.host);
    const auto [at, added] = by_id.emplace(id, units.size());
    if (added) units.push_back({id, {}, {}});
    Unit& unit = units[at->second];
    unit.receivers.push_back(r);
    const bool known = std::any_of(unit.nics.begin(), unit.nics.end(), [&](const Seat& nic) {
      return nic.host == seat.host && nic.nic == seat.nic;
    });
    if (!known) unit.nics.push_back(seat);
  }
  return units;
}

// What a byte of a broadcast from `root` takes of every link on its chain through the units.
std::vector<ResourceUse> broadcast_uses(const Cluster& cluster, const Topology& topology,
                                        uint32_t root) {
  std::map<uint32_t, double> weight;
  std::vector<Unit> units = units_of(cluster, topology);
  const Place leader{false, root};
  std::vector<Seat> from{topology.seat(leader)};
  // The unit that the root is in, if any, comes first: it is served inside.
  std::stable_partition(units.begin(), units.end(),
                        [&](const Unit& unit) { return unit.id == topology.unit(leader); });
  for (const Unit& unit : units) {
    if (unit.id == topology.unit(leader)) {
      weight[topology.inside(leader).out] += 1;
      for (const uint32_t r : unit.receivers) weight[topology.inside({true, r}).in] += 1;
      continue;
    }
    for (const Seat& nic : from) {
      weight[topology.nic(nic).out] += 1.0 / static_cast<double>(from.size());
    }
    for (const uint32_t link : topology.between(from[0].host, unit.nics[0].host)) {
      weight[link] += 1;
    }
    for (const Seat& nic : unit.nics) {
      weight[topology.nic(nic).in] += 1.0 / static_cast<double>(unit.nics.size());
    }
    const auto workers = static_cast<double>(unit.receivers.size());
    for (const uint32_t r : unit.receivers) {
      weight[topology.inside({true, r}).in] += (workers - 1) / workers;
      weight[topology.inside({true, r}).out] += (workers - 1) / workers;
    }
    from = unit.nics;
  }
  std::vector<ResourceUse> uses;
  for (const auto& [resource, w] : weight) uses.push_back({resource, w});
  return uses;
}

// What one root has to broadcast, and what it has to gather for that, by holder.
struct Root {
  uint64_t bytes = 0;
  std::map<uint32_t, uint64_t> gathered;
};

}  // namespace

std::string_view link_name(Link link) {
  switch (link) {
    case Link::kTrainerOut:
      return "trainers' NICs, out";
    case Link::kTrainerIn:
      return "trainers' NICs, in";
    case Link::kRolloutIn:
      return "receivers' NICs, in";
    case Link::kRolloutOut:
      return "receivers' NICs, out";
    case Link::kInside:
      return "inside hosts";
    case Link::kUplink:
      return "switch uplinks";
    case Link::kReading:
      return "work per read";
  }
  return "unknown";
}

Result<Simulation> simulate_plan(const Cluster& cluster, const Fabric& fabric,
                                 std::span<const Transfer> transfers,
                                 const SimulationOptions& options) {
  for (const Transfer& transfer : transfers) {
    if (transfer.to >= cluster.receivers.size()) return outside("receiver", transfer.to);
    const auto& side = transfer.from_peer ? cluster.receivers : cluster.sources;
    if (transfer.from >= side.size()) {
      return outside(transfer.from_peer ? "receiver" : "source", transfer.from);
    }
    if (transfer.from_peer && transfer.from == transfer.to) {
      return Status(Code::kInvalidArgument,
                    "receiver " + std::to_string(transfer.to) + " waits for itself");
    }
  }
  FlowNetwork network;
  WB_ASSIGN_OR_RETURN(const Topology topology, Topology::make(cluster, fabric, &network));
  PlanFlows flows(cluster, topology, static_cast<double>(fabric.latency_ns) * 1e-9, options,
                  &network);
  WB_RETURN_IF_ERROR(flows.add(transfers));
  WB_ASSIGN_OR_RETURN(const FlowHistory history, network.run());

  Simulation out;
  out.seconds = history.seconds;
  out.receivers.assign(cluster.receivers.size(), 0);
  out.from_sources.assign(cluster.receivers.size(), 0);
  out.sources.assign(cluster.sources.size(), 0);
  for (size_t r = 0; r < flows.pieces().size(); ++r) {
    for (const PlanFlows::Piece& piece : flows.pieces()[r]) {
      const double end = history.end[piece.flow];
      out.receivers[r] = std::max(out.receivers[r], end);
      if (piece.from_peer) continue;
      out.from_sources[r] = std::max(out.from_sources[r], end);
      out.sources[piece.from] = std::max(out.sources[piece.from], end);
    }
  }
  out.usage = usage_of(network, history, options.samples);
  return out;
}

Result<Simulation> simulate_broadcast(const Cluster& cluster, const Fabric& fabric,
                                      std::span<const ByteClass> classes,
                                      std::span<const uint32_t> group_of,
                                      const SimulationOptions& options) {
  if (group_of.size() != cluster.sources.size()) {
    return Status(Code::kInvalidArgument, "a group for each source is needed");
  }
  std::map<uint32_t, uint32_t> root_of;  // group -> its lowest source
  for (uint32_t s = 0; s < group_of.size(); ++s) root_of.emplace(group_of[s], s);
  std::map<uint32_t, Root> roots;
  for (const ByteClass& each : classes) {
    if (each.holders.empty() || each.holders.back() >= group_of.size()) {
      return Status(Code::kInvalidArgument, "a class has no holder in the cluster");
    }
    const uint32_t holder = each.holders.front();
    const uint32_t root = root_of.at(group_of[holder]);
    roots[root].bytes += each.bytes;
    if (!std::binary_search(each.holders.begin(), each.holders.end(), root)) {
      roots[root].gathered[holder] += each.bytes;
    }
  }

  FlowNetwork network;
  WB_ASSIGN_OR_RETURN(const Topology topology, Topology::make(cluster, fabric, &network));
  const uint32_t buckets = std::max(options.buckets, 1u);
  const uint32_t gathering = network.add_lane(0);
  const double delay = static_cast<double>(fabric.latency_ns) * 1e-9;
  const auto part = [&](uint64_t bytes) { return static_cast<double>(bytes) / buckets; };
  for (const auto& [root, work] : roots) {
    const uint32_t sending = network.add_lane(1);
    std::vector<uint32_t> sent;             // by bucket
    std::map<uint32_t, uint32_t> gathered;  // the last one, by holder
    NetworkFlow broadcast;
    broadcast.bytes = part(work.bytes);
    broadcast.uses = broadcast_uses(cluster, topology, root);
    broadcast.lane = sending;
    broadcast.delay = delay;
    for (uint32_t b = 0; b < buckets; ++b) {
      broadcast.after.clear();
      for (const auto& [holder, bytes] : work.gathered) {
        NetworkFlow gather;
        gather.bytes = part(bytes);
        gather.uses = topology.path({false, holder}, {false, root});
        gather.lane = gathering;
        gather.delay = delay;
        // Two buckets: one is gathered while the other is sent.
        if (b >= 2) gather.after.push_back(sent[b - 2]);
        if (b >= 1) gather.after.push_back(gathered.at(holder));
        gathered[holder] = network.add_flow(std::move(gather));
        broadcast.after.push_back(gathered.at(holder));
      }
      sent.push_back(network.add_flow(broadcast));
    }
  }
  WB_ASSIGN_OR_RETURN(const FlowHistory history, network.run());

  Simulation out;
  out.seconds = history.seconds;
  out.receivers.assign(cluster.receivers.size(), history.seconds);
  out.from_sources = out.receivers;
  out.sources.assign(cluster.sources.size(), history.seconds);
  out.usage = usage_of(network, history, options.samples);
  return out;
}

}  // namespace wb
