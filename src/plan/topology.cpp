#include "plan/topology.h"

#include <algorithm>
#include <string>

namespace wb {
namespace {

uint32_t kind(Link link) { return static_cast<uint32_t>(link); }

double speed(uint64_t bytes_per_second) { return static_cast<double>(bytes_per_second); }

}  // namespace

Status Topology::check() const {
  const auto bad = [](const std::string& what) { return Status(Code::kInvalidArgument, what); };
  for (const auto* seats : {&cluster_->sources, &cluster_->receivers}) {
    for (size_t i = 0; i < seats->size(); ++i) {
      const Seat& seat = (*seats)[i];
      const std::string worker =
          (seats == &cluster_->sources ? "source " : "receiver ") + std::to_string(i);
      if (seat.host >= cluster_->hosts.size())
        return bad(worker + " sits on a host that is not there");
      const Host& host = cluster_->hosts[seat.host];
      if (seat.nic >= host.nics.size()) return bad(worker + " sits on a NIC that is not there");
      if (host.nics[seat.nic].bytes_per_second == 0 || host.inside_bytes_per_second == 0) {
        return bad("host " + host.name + " has a speed of zero");
      }
    }
  }
  const auto& leaves = fabric_->switch_of_host;
  if (!leaves.empty() && leaves.size() != cluster_->hosts.size()) {
    return bad("the fabric is of another cluster");
  }
  const size_t switches = fabric_->switches.size();
  for (const uint32_t leaf : leaves) {
    if (leaf != kNoSwitch && leaf >= switches)
      return bad("a host hangs on a switch that is not there");
  }
  for (const Switch& each : fabric_->switches) {
    size_t height = 0;
    for (const Switch* at = &each; at->parent != kNoSwitch; at = &fabric_->switches[at->parent]) {
      if (at->parent >= switches) return bad("switch " + at->name + " has no such parent");
      if (++height > switches) return bad("switch " + each.name + " is above itself");
    }
  }
  return Status();
}

Result<Topology> Topology::make(const Cluster& cluster, const Fabric& fabric,
                                FlowNetwork* network) {
  Topology topology(cluster, fabric);
  WB_RETURN_IF_ERROR(topology.check());
  topology.add_nics(network);
  const auto add_inside = [&](const std::vector<Seat>& seats, std::vector<Pair>* inside) {
    for (const Seat& seat : seats) {
      const double rate = speed(cluster.hosts[seat.host].inside_bytes_per_second);
      const uint32_t out = network->add_resource(rate, kind(Link::kInside));
      inside->push_back({out, network->add_resource(rate, kind(Link::kInside))});
    }
  };
  add_inside(cluster.sources, &topology.inside_sources_);
  add_inside(cluster.receivers, &topology.inside_receivers_);
  for (const Switch& each : fabric.switches) {
    Pair pair;
    if (each.uplink_bytes_per_second != 0) {
      const double rate = speed(each.uplink_bytes_per_second);
      pair.out = network->add_resource(rate, kind(Link::kUplink));
      pair.in = network->add_resource(rate, kind(Link::kUplink));
    }
    topology.uplinks_.push_back(pair);
  }
  return topology;
}

// Both directions of a half duplex NIC are one link. A NIC that both sides sit on counts as the
// trainers' for what leaves it and as the receivers' for what enters it.
void Topology::add_nics(FlowNetwork* network) {
  std::map<std::pair<uint32_t, uint32_t>, std::pair<bool, bool>> users;
  for (const Seat& seat : cluster_->sources) users[{seat.host, seat.nic}].first = true;
  for (const Seat& seat : cluster_->receivers) users[{seat.host, seat.nic}].second = true;
  for (const auto& [at, user] : users) {
    const Nic& nic = cluster_->hosts[at.first].nics[at.second];
    const double rate = speed(nic.bytes_per_second);
    const Link in = user.second ? Link::kRolloutIn : Link::kTrainerIn;
    const Link out = user.first ? Link::kTrainerOut : Link::kRolloutOut;
    Pair pair;
    if (nic.full_duplex) {
      pair.out = network->add_resource(rate, kind(out));
      pair.in = network->add_resource(rate, kind(in));
    } else {
      pair.in = pair.out = network->add_resource(rate, kind(user.second ? in : out));
    }
    nics_[at] = pair;
  }
}

// The switches above a host, lowest first.
std::vector<uint32_t> Topology::way_up(uint32_t host) const {
  std::vector<uint32_t> way;
  if (fabric_->switch_of_host.empty()) return way;
  for (uint32_t at = fabric_->switch_of_host[host]; at != kNoSwitch;
       at = fabric_->switches[at].parent) {
    way.push_back(at);
  }
  return way;
}

std::vector<uint32_t> Topology::between(uint32_t from_host, uint32_t to_host) const {
  std::vector<uint32_t> up = way_up(from_host), down = way_up(to_host);
  while (!up.empty() && !down.empty() && up.back() == down.back()) {
    up.pop_back();
    down.pop_back();
  }
  std::vector<uint32_t> links;
  const auto add = [&](uint32_t at, uint32_t link) {
    if (fabric_->switches[at].uplink_bytes_per_second != 0) links.push_back(link);
  };
  for (const uint32_t at : up) add(at, uplinks_[at].out);
  for (const uint32_t at : down) add(at, uplinks_[at].in);
  return links;
}

std::vector<ResourceUse> Topology::path(Place from, Place to) const {
  std::vector<ResourceUse> uses;
  if (unit(from) == unit(to)) {
    return {{inside(from).out, 1}, {inside(to).in, 1}};
  }
  uses.push_back({nic(seat(from)).out, 1});
  for (const uint32_t link : between(seat(from).host, seat(to).host)) uses.push_back({link, 1});
  uses.push_back({nic(seat(to)).in, 1});
  return uses;
}

}  // namespace wb
