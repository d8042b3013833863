#include "cli/plan_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "plan/fleet_proof.h"
#include "plan/side_index.h"

namespace wb::cli {
namespace {

// Parts are proved together when they fit in memory together.
constexpr uint64_t kMostRunsKept = 4'000'000;

uint64_t runs_of(const FleetPart& part) {
  uint64_t runs = 0;
  for (const PartList& list : part.lists) {
    runs += list.runs.size();
    for (const ReadList& fallback : list.fallbacks) runs += fallback.runs.size();
  }
  return runs;
}

class Measure {
 public:
  Measure(const PlanJob& job, bool prove) : job_(job), prove_(prove) {}

  Result<PlanFigures> run(uint32_t first, uint32_t end) {
    const Fleet& fleet = job_.fleet();
    std::vector<FleetPart> parts;
    uint64_t kept = 0;
    const bool all = prove_ && first == 0 && end == fleet.receivers().size();
    for (uint32_t receiver = first; receiver < end; ++receiver) {
      WB_ASSIGN_OR_RETURN(FleetPart part, make_part(fleet, job_.plan(), receiver));
      if (prove_) WB_RETURN_IF_ERROR(prove_part(fleet, part));
      add(part);
      kept += runs_of(part);
      if (all && kept <= kMostRunsKept) {
        parts.push_back(std::move(part));
      } else {
        parts.clear();
      }
    }
    out_.together = prove_ && parts.size() == fleet.receivers().size();
    if (out_.together) WB_RETURN_IF_ERROR(prove_fleet(fleet, parts));
    for (uint32_t r = 0; r < fleet.receivers().size(); ++r) add_extras(r);
    for (const FleetEdge& edge : fleet_edges(job_.plan())) {
      (edge.from_peer ? out_.from_peers : out_.from_sources) += edge.bytes;
    }
    for (const Fleet::Worker& source : fleet.sources()) {
      const auto& regions = source.region_bytes;
      out_.source_memory = std::max(out_.source_memory,
                                    std::accumulate(regions.begin(), regions.end(), uint64_t{0}));
    }
    for (const LoadReport& load : job_.plan().balance.loads) add_link(load);
    return std::move(out_);
  }

 private:
  void add(const FleetPart& part) {
    const Fleet& fleet = job_.fleet();
    const Fleet::Worker& worker = fleet.receivers()[part.receiver];
    ReceiverFigures figures;
    figures.receiver = part.receiver;
    figures.needed =
        fleet.receiver_index().family(worker.member.family).base.piece_bytes(fleet.table());
    figures.bytes = part.bytes;
    figures.shape = part.shape;
    figures.memory =
        std::accumulate(worker.region_bytes.begin(), worker.region_bytes.end(), uint64_t{0}) +
        (part.shape.staged == 0 ? 0 : job_.plan().options.costs.staging_bytes) +
        runs_of(part) * (sizeof(Run) + sizeof(ShapedRun));
    for (const PartList& list : part.lists) add_list(part, list, &figures);
    out_.receivers.push_back(std::move(figures));
  }

  void add_list(const FleetPart& part, const PartList& list, ReceiverFigures* figures) {
    EdgeFigures edge{.from_peer = list.from_peer,
                     .worker = list.worker,
                     .bytes = list.bytes,
                     .runs = list.runs.size(),
                     .rows = list.reads};
    Transfer transfer{.to = part.receiver,
                      .from_peer = list.from_peer,
                      .from = list.worker,
                      .stage = list.stage,
                      .bytes = list.bytes};
    const TransportCosts& costs = job_.plan().options.costs;
    // Inside a host rows are copied, not read over a wire.
    const bool inside = list.from_peer && together(list.worker, part.receiver);
    for (size_t i = 0; i < list.runs.size(); ++i) {
      const Run& run = list.runs[i];
      const ShapedRun& shape = list.shapes[i];
      const uint64_t wire = run.length * run.count + shape.waste;
      const uint64_t size = std::max<uint64_t>(1, wire / std::max<uint64_t>(1, shape.reads));
      edge.reads += shape.reads;
      edge.smallest = edge.smallest == 0 ? size : std::min(edge.smallest, size);
      edge.largest = std::max(edge.largest, size);
      const auto bin = static_cast<size_t>(std::bit_width(size) - 1);
      out_.reads_of_size[bin] += shape.reads;
      out_.bytes_of_size[bin] += wire;
      if (inside) {
        transfer.overhead_ps += run.count * costs.copy_row_ps;
        continue;
      }
      transfer.bytes += shape.waste;
      // All that the model of costs has beyond the wire itself.
      transfer.overhead_ps += shape.cost_ps - std::min(shape.cost_ps, wire * costs.byte_ps);
    }
    figures->edges.push_back(edge);
    out_.transfers.push_back(transfer);
  }

  bool together(uint32_t a, uint32_t b) const {
    const Cluster& cluster = job_.cluster();
    const uint32_t host_a = cluster.receivers[a].host, host_b = cluster.receivers[b].host;
    const uint32_t domain = cluster.hosts[host_a].domain;
    return host_a == host_b || (domain != 0 && domain == cluster.hosts[host_b].domain);
  }

  void add_extras(uint32_t receiver) {
    const Fleet& fleet = job_.fleet();
    const uint32_t family = fleet.receivers()[receiver].member.family;
    for (const Extra& extra : fleet.receiver_index().family(family).base.extras) {
      switch (extra.kind) {
        case ExtraKind::kZeroFill:
          out_.padding += extra.bytes;
          break;
        case ExtraKind::kUnmapped:
          out_.unmapped += extra.bytes;
          break;
        case ExtraKind::kComputed:
          out_.computed += extra.bytes;
          break;
      }
    }
  }

  void add_link(const LoadReport& load) {
    const Cluster& cluster = job_.cluster();
    LinkFigures link;
    link.kind = load.kind;
    link.largest = load.largest;
    link.bound = load.bound;
    uint64_t speed = 1;
    if (load.kind == Bottleneck::kInsideHost) {
      const size_t sources = cluster.sources.size();
      // Trainers take part only where they share a host with receivers.
      const bool trainers = std::any_of(load.nic_bytes.begin(),
                                        load.nic_bytes.begin() + static_cast<ptrdiff_t>(sources),
                                        [](uint64_t bytes) { return bytes != 0; });
      for (size_t w = trainers ? 0 : sources; w < load.nic_bytes.size(); ++w) {
        const bool source = w < sources;
        const Seat& seat = source ? cluster.sources[w] : cluster.receivers[w - sources];
        link.names.push_back(source ? job_.fleet().sources()[w].name
                                    : job_.fleet().receivers()[w - sources].name);
        link.bytes.push_back(load.nic_bytes[w]);
        if (w == load.nic) speed = cluster.hosts[seat.host].inside_bytes_per_second;
      }
    } else {
      size_t at = 0;
      for (uint32_t h = 0; h < cluster.hosts.size(); ++h) {
        const Host& host = cluster.hosts[h];
        for (uint32_t n = 0; n < host.nics.size(); ++n, ++at) {
          if (at == load.nic) speed = host.nics[n].bytes_per_second;
          if (!carries(load.kind, {h, n}) && load.nic_bytes[at] == 0) continue;
          link.names.push_back(fmt::format("{}, NIC {}", host.name, n));
          link.bytes.push_back(load.nic_bytes[at]);
        }
      }
    }
    link.spread = spread_of(link.bytes);
    link.seconds = static_cast<double>(load.largest) / static_cast<double>(speed);
    out_.links.push_back(std::move(link));
  }

  // Whether a worker of the side that the kind is about sits on the NIC.
  bool carries(Bottleneck kind, const Seat& nic) {
    if (used_sources_.empty()) {
      for (const Seat& seat : job_.cluster().sources)
        used_sources_.emplace_back(seat.host, seat.nic);
      for (const Seat& seat : job_.cluster().receivers) {
        used_receivers_.emplace_back(seat.host, seat.nic);
      }
      std::sort(used_sources_.begin(), used_sources_.end());
      std::sort(used_receivers_.begin(), used_receivers_.end());
    }
    const auto& used = kind == Bottleneck::kSourceEgress ? used_sources_ : used_receivers_;
    return std::binary_search(used.begin(), used.end(), std::pair(nic.host, nic.nic));
  }

  const PlanJob& job_;
  const bool prove_;
  PlanFigures out_;
  std::vector<std::pair<uint32_t, uint32_t>> used_sources_, used_receivers_;
};

}  // namespace

Spread spread_of(const std::vector<uint64_t>& values) {
  if (values.empty()) return {};
  double sum = 0;
  for (const uint64_t value : values) sum += static_cast<double>(value);
  return {*std::min_element(values.begin(), values.end()),
          *std::max_element(values.begin(), values.end()),
          sum / static_cast<double>(values.size())};
}

std::string_view bottleneck_name(Bottleneck kind) {
  switch (kind) {
    case Bottleneck::kSourceEgress:
      return "what leaves the trainers' NICs";
    case Bottleneck::kReceiverIngress:
      return "what enters the receivers' NICs";
    case Bottleneck::kReceiverEgress:
      return "what leaves the receivers' NICs";
    case Bottleneck::kInsideHost:
      return "what moves inside hosts";
  }
  return "unknown";
}

Result<PlanFigures> measure(const PlanJob& job, uint32_t first, uint32_t end, bool prove) {
  return Measure(job, prove).run(first, end);
}

}  // namespace wb::cli
