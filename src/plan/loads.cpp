#include "plan/loads.h"

#include <algorithm>
#include <limits>

namespace wb {
namespace {

// A report with what decides between kinds that are equally slow on a NIC they share.
struct Measured {
  LoadReport report;
  Ratio time;
  uint64_t own = 0;  // bytes of this kind where it takes longest
};

uint64_t nanoseconds(const Ratio& time) {
  constexpr uint64_t kPerSecond = 1'000'000'000;
  const uint128_t ns =
      (static_cast<uint128_t>(time.bytes) * kPerSecond + time.speed - 1) / time.speed;
  return static_cast<uint64_t>(std::min<uint128_t>(ns, std::numeric_limits<uint64_t>::max()));
}

class Meter {
 public:
  Meter(const Draft& draft, const Cluster& cluster)
      : draft_(draft), ports_(draft.ports()), cluster_(cluster), carried_(ports_.carriers()) {
    // The first ports are those on NICs.
    for (uint32_t p = 0; p < ports_.source_inside(0); ++p) {
      carried_[ports_.carrier(p)] += draft.tasks().load(p);
    }
  }

  Loads measure() {
    Loads loads;
    std::vector<Measured> all;
    all.push_back(nic_kind(
        Bottleneck::kSourceEgress, cluster_.sources,
        [&](uint32_t s) { return ports_.source_out(s); },
        [&](uint32_t n) { return ports_.out_carrier(n); }));
    all.push_back(nic_kind(
        Bottleneck::kReceiverIngress, cluster_.receivers,
        [&](uint32_t r) { return ports_.receiver_in(r); },
        [&](uint32_t n) { return ports_.in_carrier(n); }));
    all.push_back(nic_kind(
        Bottleneck::kReceiverEgress, cluster_.receivers,
        [&](uint32_t r) { return ports_.receiver_out(r); },
        [&](uint32_t n) { return ports_.out_carrier(n); }));
    all.push_back(inside_kind());
    const Measured* slowest = nullptr;
    for (Measured& kind : all) {
      if (kind.report.largest == 0) continue;
      if (slowest == nullptr || slowest->time < kind.time ||
          (!(kind.time < slowest->time) && slowest->own < kind.own)) {
        slowest = &kind;
      }
    }
    if (slowest == nullptr) return loads;
    loads.binds = slowest->report.kind;
    loads.nanoseconds = nanoseconds(slowest->time);
    for (Measured& kind : all) {
      if (kind.report.largest > 0) loads.reports.push_back(std::move(kind.report));
    }
    return loads;
  }

 private:
  template <typename Port, typename Carrier>
  Measured nic_kind(Bottleneck kind, const std::vector<Seat>& seats, Port port,
                    Carrier carrier) const {
    std::vector<uint32_t> first_nic;
    uint32_t nics = 0;
    for (const Host& host : cluster_.hosts) {
      first_nic.push_back(nics);
      nics += static_cast<uint32_t>(host.nics.size());
    }
    std::vector<uint64_t> own(nics);
    for (uint32_t w = 0; w < seats.size(); ++w) {
      own[first_nic[seats[w].host] + seats[w].nic] += draft_.tasks().load(port(w));
    }
    Measured measured;
    LoadReport& report = measured.report;
    report.kind = kind;
    report.nic_bytes.resize(nics);
    Ratio level;
    for (uint32_t n = 0; n < nics; ++n) {
      if (own[n] == 0) continue;
      const uint32_t c = carrier(n);
      report.nic_bytes[n] = carried_[c];
      level = std::max(level, draft_.tasks().level(c));
      const Ratio time{carried_[c], ports_.speed(c)};
      if (!(measured.time < time)) continue;
      measured.time = time;
      measured.own = own[n];
      report.largest = carried_[c];
      report.nic = n;
    }
    report.bound = std::min(report.largest, level.ceil_at(measured.time.speed));
    return measured;
  }

  // Totals of a host are the same however bytes are divided, so its workers' mean is a bound.
  Measured inside_kind() const {
    const uint32_t sources = ports_.sources();
    std::vector<uint64_t> in(sources + ports_.receivers()), out(in.size());
    for (uint32_t s = 0; s < sources; ++s) out[s] = draft_.tasks().load(ports_.source_inside(s));
    for (uint32_t c = 0; c < draft_.needs().classes().size(); ++c) add_inside(c, &in, &out);

    struct Host {
      Ratio in{0, 0};
      Ratio out{0, 0};
    };
    std::vector<Host> hosts(draft_.needs().hosts());
    Measured measured;
    LoadReport& report = measured.report;
    report.kind = Bottleneck::kInsideHost;
    for (uint32_t w = 0; w < in.size(); ++w) {
      const bool is_source = w < sources;
      Host& host = hosts[is_source ? draft_.needs().host_of_source(w)
                                   : draft_.needs().host_of_receiver(w - sources)];
      const uint64_t speed = ports_.speed(ports_.carrier(
          is_source ? ports_.source_inside(w) : ports_.receiver_inside(w - sources)));
      host.out.bytes += out[w];
      host.out.speed += speed;
      host.in.bytes += in[w];
      if (!is_source) host.in.speed += speed;
      const uint64_t busier = std::max(in[w], out[w]);
      report.nic_bytes.push_back(busier);
      const Ratio time{busier, speed};
      if (!(measured.time < time)) continue;
      measured.time = time;
      measured.own = report.largest = busier;
      report.nic = w;
    }
    Ratio level;
    for (const Host& host : hosts) {
      if (host.in.bytes > 0) level = std::max(level, host.in);
      if (host.out.bytes > 0) level = std::max(level, host.out);
    }
    report.bound = std::min(report.largest, level.ceil_at(measured.time.speed));
    return measured;
  }

  void add_inside(uint32_t c, std::vector<uint64_t>* in, std::vector<uint64_t>* out) const {
    const uint64_t bytes = draft_.needs().classes()[c].bytes;
    const std::span<const Need> needs = draft_.needs().of(c);
    for (size_t i = 0; i < needs.size(); ++i) {
      const bool local = !needs[i].local.empty();
      if (local || draft_.policy() != Policy::kDirect) {
        for (const uint32_t m : needs[i].members) (*in)[ports_.sources() + m] += bytes;
      }
      if (draft_.policy() == Policy::kDirect) continue;
      for (const Amount& first : draft_.first(c, i)) {
        const uint32_t w = ports_.sources() + first.worker;
        if (!local) (*in)[w] -= first.bytes;  // by its NIC
        (*out)[w] += first.bytes * (needs[i].members.size() - 1);
      }
    }
  }

  const Draft& draft_;
  const Ports& ports_;
  const Cluster& cluster_;
  std::vector<uint64_t> carried_;  // by carrier of a NIC
};

}  // namespace

Loads measure(const Draft& draft, const Cluster& cluster) {
  return Meter(draft, cluster).measure();
}

}  // namespace wb
