#include "plan/cut.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace wb {
namespace {

// What a list of amounts is about; deviations are kept apart for each.
enum Kind { kFrom, kFirst, kSender, kAt, kKinds };

// One list of amounts laid over its class: worker[i] has [end[i - 1], end[i]).
struct Track {
  Kind kind = kFrom;
  std::vector<uint32_t> worker;
  std::vector<uint64_t> end;
};

Track track_of(Kind kind, const std::vector<Amount>& amounts) {
  Track track;
  track.kind = kind;
  uint64_t at = 0;
  for (const Amount& amount : amounts) {
    if (amount.bytes == 0) continue;
    at += amount.bytes;
    track.worker.push_back(amount.worker);
    track.end.push_back(at);
  }
  return track;
}

class Divider {
 public:
  Divider(const ClassMap& map, const Balance& balance, uint64_t unit, bool exact)
      : map_(map), balance_(balance), unit_(unit), exact_(exact) {
    for (auto& deviation : deviation_) {
      deviation.resize(std::max(balance.source_bytes.size(), balance.receiver_in.size()));
    }
  }

  Division run() {
    std::vector<uint32_t> order(balance_.classes.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return map_.classes()[a].bytes > map_.classes()[b].bytes;
    });
    for (const uint32_t c : order) {
      for (uint32_t k = 0; k < balance_.classes[c].copies.size(); ++k) cut_copy(c, k);
    }
    const auto place = [](const auto& x) { return std::tuple(x.byte_class, x.copy); };
    std::stable_sort(out_.flows.begin(), out_.flows.end(),
                     [&](const Flow& a, const Flow& b) { return place(a) < place(b); });
    std::stable_sort(out_.entries.begin(), out_.entries.end(),
                     [&](const EntryFlow& a, const EntryFlow& b) { return place(a) < place(b); });
    return std::move(out_);
  }

 private:
  void cut_copy(uint32_t c, uint32_t k) {
    const Copy& copy = balance_.classes[c].copies[k];
    std::vector<Track> tracks{track_of(kFrom, copy.from), track_of(kFirst, copy.first)};
    if (!copy.entries.empty()) tracks.push_back(track_of(kSender, copy.senders));
    const size_t own = tracks.size();
    for (const Entry& entry : copy.entries) tracks.push_back(track_of(kAt, entry.at));
    if (!exact_) round_all(c, &tracks);
    overlay(c, k, std::span(tracks).first(own));
    for (size_t e = own; e < tracks.size(); ++e) {
      uint64_t begin = 0;
      for (size_t i = 0; i < tracks[e].end.size(); ++i) {
        const uint64_t end = tracks[e].end[i];
        if (begin < end) {
          out_.entries.push_back(
              {c, k, static_cast<uint32_t>(e - own), begin, end, tracks[e].worker[i]});
        }
        begin = end;
      }
    }
  }

  // Rounds positions, not lengths: where two lists change at one byte, they still do.
  void round_all(uint32_t c, std::vector<Track>* tracks) {
    std::vector<uint64_t> positions;
    for (const Track& track : *tracks) {
      positions.insert(positions.end(), track.end.begin(), track.end.end() - 1);
    }
    std::sort(positions.begin(), positions.end());
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
    std::vector<size_t> next(tracks->size());
    uint64_t before = 0;
    for (const uint64_t position : positions) {
      const ClassMap::Places places = map_.places_near(c, position, unit_);
      const int64_t down = static_cast<int64_t>(places.below - position);
      const int64_t up = static_cast<int64_t>(places.above - position);
      uint64_t chosen = places.below;
      if (places.above != places.below &&
          cost(*tracks, next, position, up) < cost(*tracks, next, position, down)) {
        chosen = places.above;
      }
      chosen = std::max(chosen, before);
      before = chosen;
      for (size_t t = 0; t < tracks->size(); ++t) {
        Track& track = (*tracks)[t];
        if (next[t] + 1 >= track.end.size() || track.end[next[t]] != position) continue;
        const auto shift = static_cast<int64_t>(chosen - position);
        deviation(track, next[t]) += shift;
        deviation(track, next[t] + 1) -= shift;
        track.end[next[t]++] = chosen;
      }
    }
  }

  int64_t& deviation(const Track& track, size_t i) {
    return deviation_[track.kind][track.worker[i]];
  }

  // How far the workers next to a boundary would be from what they were given.
  uint64_t cost(const std::vector<Track>& tracks, const std::vector<size_t>& next,
                uint64_t position, int64_t shift) {
    uint64_t sum = 0;
    for (size_t t = 0; t < tracks.size(); ++t) {
      const Track& track = tracks[t];
      if (next[t] + 1 >= track.end.size() || track.end[next[t]] != position) continue;
      sum += static_cast<uint64_t>(std::abs(deviation(track, next[t]) + shift));
      sum += static_cast<uint64_t>(std::abs(deviation(track, next[t] + 1) - shift));
    }
    return sum;
  }

  // Flows change where any of the copy's own lists does.
  void overlay(uint32_t c, uint32_t k, std::span<const Track> tracks) {
    const uint64_t bytes = map_.classes()[c].bytes;
    std::array<size_t, 3> i{};
    for (uint64_t begin = 0; begin < bytes;) {
      uint64_t end = bytes;
      std::array<uint32_t, 3> worker{};
      for (size_t t = 0; t < tracks.size(); ++t) {
        while (tracks[t].end[i[t]] <= begin) ++i[t];
        end = std::min(end, tracks[t].end[i[t]]);
        worker[t] = tracks[t].worker[i[t]];
      }
      const uint32_t sender = tracks.size() > 2 ? worker[2] : worker[1];
      out_.flows.push_back({c, k, begin, end, worker[0], worker[1], sender});
      begin = end;
    }
  }

  const ClassMap& map_;
  const Balance& balance_;
  const uint64_t unit_;
  const bool exact_;
  std::array<std::vector<int64_t>, kKinds> deviation_;  // bytes too many, by worker
  Division out_;
};

bool together(const Cluster& cluster, const Seat& a, const Seat& b) {
  if (a.host == b.host) return true;
  const uint32_t domain = cluster.hosts[a.host].domain;
  return domain != 0 && domain == cluster.hosts[b.host].domain;
}

}  // namespace

Division divide(const ClassMap& map, const Balance& balance, uint64_t unit, bool exact) {
  return Divider(map, balance, unit, exact).run();
}

void account(const std::vector<FleetEdge>& edges, const Cluster& cluster, Balance* balance) {
  std::vector<size_t> first_nic;
  size_t nics = 0;
  for (const Host& host : cluster.hosts) {
    first_nic.push_back(nics);
    nics += host.nics.size();
  }
  const auto nic_of = [&](const Seat& seat) { return first_nic[seat.host] + seat.nic; };
  const size_t sources = cluster.sources.size();
  const size_t receivers = cluster.receivers.size();
  balance->source_bytes.assign(sources, 0);
  balance->receiver_in.assign(receivers, 0);
  balance->receiver_out.assign(receivers, 0);
  std::vector<uint64_t> source_out(nics), receiver_in(nics), receiver_out(nics);
  std::vector<uint64_t> inside_out(sources + receivers), inside_in(sources + receivers);
  for (const FleetEdge& edge : edges) {
    const Seat& to = cluster.receivers[edge.receiver];
    const Seat& from = edge.from_peer ? cluster.receivers[edge.from] : cluster.sources[edge.from];
    if (!edge.from_peer) balance->source_bytes[edge.from] += edge.bytes;
    if (together(cluster, from, to)) {
      inside_out[(edge.from_peer ? sources : 0) + edge.from] += edge.bytes;
      inside_in[sources + edge.receiver] += edge.bytes;
      continue;
    }
    balance->receiver_in[edge.receiver] += edge.bytes;
    receiver_in[nic_of(to)] += edge.bytes;
    if (edge.from_peer) {
      balance->receiver_out[edge.from] += edge.bytes;
      receiver_out[nic_of(from)] += edge.bytes;
    } else {
      source_out[nic_of(from)] += edge.bytes;
    }
  }
  std::vector<const Nic*> nic;
  for (const Host& host : cluster.hosts) {
    for (const Nic& n : host.nics) nic.push_back(&n);
  }
  for (LoadReport& load : balance->loads) {
    std::vector<uint64_t> bytes;
    switch (load.kind) {
      case Bottleneck::kSourceEgress:
        bytes = source_out;
        break;
      case Bottleneck::kReceiverIngress:
        bytes = receiver_in;
        break;
      case Bottleneck::kReceiverEgress:
        bytes = receiver_out;
        break;
      case Bottleneck::kInsideHost:
        bytes.resize(sources + receivers);
        for (size_t w = 0; w < bytes.size(); ++w) bytes[w] = std::max(inside_out[w], inside_in[w]);
        break;
    }
    const bool nic_kind = load.kind != Bottleneck::kInsideHost;
    // What a NIC carries in this direction, or in both if it can only do one at a time, whoever of
    // its workers moves it.
    const bool in = load.kind == Bottleneck::kReceiverIngress;
    for (size_t n = 0; nic_kind && n < nics; ++n) {
      if (bytes[n] == 0) continue;
      const uint64_t out_bytes = source_out[n] + receiver_out[n];
      bytes[n] = !nic[n]->full_duplex ? out_bytes + receiver_in[n] : in ? bytes[n] : out_bytes;
    }
    const auto speed = [&](size_t n) {
      if (nic_kind) return nic[n]->bytes_per_second;
      const Seat& seat = n < sources ? cluster.sources[n] : cluster.receivers[n - sources];
      return cluster.hosts[seat.host].inside_bytes_per_second;
    };
    load.nic_bytes = std::move(bytes);
    load.nic = 0;
    for (size_t n = 1; n < load.nic_bytes.size(); ++n) {
      using Wide = unsigned __int128;
      if (Wide{load.nic_bytes[n]} * speed(load.nic) > Wide{load.nic_bytes[load.nic]} * speed(n)) {
        load.nic = static_cast<uint32_t>(n);
      }
    }
    load.largest = load.nic_bytes.empty() ? 0 : load.nic_bytes[load.nic];
  }
}

}  // namespace wb
