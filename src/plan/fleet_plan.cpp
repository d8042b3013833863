#include <algorithm>
#include <map>
#include <tuple>

#include "base/checked.h"
#include "plan/class_map.h"
#include "plan/cut.h"
#include "plan/fleet.h"
#include "plan/side_index.h"

namespace wb {
namespace {

// Part of FleetReport::inputs: raise it when the same inputs give another plan than before.
constexpr uint64_t kPlannerVersion = 1;

Digest inputs_digest(const Fleet& fleet, const FleetOptions& options) {
  Hasher hasher;
  hasher.add(std::string_view("weightbridge fleet plan")).add(kPlannerVersion);
  hasher.add(fleet.digest().low).add(fleet.digest().high);
  hasher.add(static_cast<uint64_t>(options.policy)).add(options.cut_bytes);
  hasher.add(options.membership_revision).add(options.in_flight_bytes);
  const TransportCosts& costs = options.costs;
  hasher.add(costs.name).add(costs.read_ps).add(costs.byte_ps).add(costs.copy_row_ps);
  hasher.add(costs.copy_byte_ps).add(costs.sge_ps).add(uint64_t{costs.max_sges});
  hasher.add(costs.staging_bytes).add(costs.relay_byte_ps).add(uint64_t{costs.can_relay});
  return hasher.digest();
}

// Bytes of all workers' pieces, or nothing above 2^63.
std::optional<uint64_t> piece_bytes(const TensorTable& table, const SideIndex& side,
                                    size_t families) {
  uint64_t total = 0;
  for (uint32_t f = 0; f < families; ++f) {
    const auto workers = side.workers_of(f).size();
    if (workers == 0) continue;
    const auto all = checked_mul(side.family(f).base.piece_bytes(table), uint64_t{workers});
    const auto sum = all ? checked_add(total, *all) : std::nullopt;
    if (!sum || *sum >> 63 != 0) return std::nullopt;
    total = *sum;
  }
  return total;
}

// Whether every load is as good as the balance's, up to what rounding to `unit` may cost.
bool near_enough(const Balance& given, const Balance& cut, const Cluster& cluster, uint64_t unit) {
  std::vector<uint64_t> speed;
  for (const Host& host : cluster.hosts) {
    for (const Nic& nic : host.nics) speed.push_back(nic.bytes_per_second);
  }
  for (size_t i = 0; i < given.loads.size(); ++i) {
    const LoadReport& want = given.loads[i];
    if (want.kind == Bottleneck::kInsideHost) continue;
    const uint64_t in_10000 = want.kind == Bottleneck::kReceiverEgress ? 10 : 1;
    for (size_t n = 0; n < cut.loads[i].nic_bytes.size(); ++n) {
      using Wide = unsigned __int128;
      const uint64_t bytes = cut.loads[i].nic_bytes[n];
      if (bytes <= unit) continue;
      if (Wide{bytes - unit} * speed[want.nic] * 10000 >
          Wide{want.largest} * speed[n] * (10000 + in_10000)) {
        return false;
      }
    }
  }
  return true;
}

// The flows of one copy.
template <typename T>
std::span<const T> of_copy(const std::vector<T>& all, uint32_t byte_class, uint32_t copy) {
  const auto key = std::pair(byte_class, copy);
  const auto begin = std::lower_bound(all.begin(), all.end(), key, [](const T& x, const auto& k) {
    return std::pair(x.byte_class, x.copy) < k;
  });
  const auto end = std::upper_bound(begin, all.end(), key, [](const auto& k, const T& x) {
    return k < std::pair(x.byte_class, x.copy);
  });
  return {begin, end};
}

bool has(const std::vector<uint32_t>& sorted, uint32_t worker) {
  return std::binary_search(sorted.begin(), sorted.end(), worker);
}

// Walks over intervals that tile [0, bytes): the one that holds a position, positions ascending.
class Walk {
 public:
  explicit Walk(std::span<const EntryFlow> flows) : flows_(flows) {}
  const EntryFlow& at(uint64_t position) {
    while (flows_[next_].end <= position) ++next_;
    return flows_[next_];
  }

 private:
  std::span<const EntryFlow> flows_;
  size_t next_ = 0;
};

class HopFinder {
 public:
  HopFinder(const FleetPlan& plan, uint32_t receiver) : plan_(plan), receiver_(receiver) {}

  std::vector<Hop> run() {
    const std::vector<ByteClass>& classes = plan_.classes();
    for (uint32_t c = 0; c < classes.size(); ++c) {
      if (!has(classes[c].needers, receiver_)) continue;
      const std::vector<Copy>& copies = plan_.balance.classes[c].copies;
      for (uint32_t k = 0; k < copies.size(); ++k) {
        if (!has(copies[k].members, receiver_)) continue;
        if (copies[k].entries.empty()) {
          plain(c, k);
        } else {
          with_entries(c, k);
        }
        break;
      }
    }
    return std::move(hops_);
  }

 private:
  void add(const Flow& flow, uint64_t begin, uint64_t end, bool from_peer, uint32_t from,
           uint32_t stage) {
    if (!hops_.empty()) {
      Hop& last = hops_.back();
      if (last.byte_class == flow.byte_class && last.end == begin && last.from_peer == from_peer &&
          last.from == from && last.stage == stage &&
          (!from_peer || last.fallback == flow.source)) {
        last.end = end;
        return;
      }
    }
    hops_.push_back({flow.byte_class, begin, end, from_peer, from, stage, flow.source});
  }

  void plain(uint32_t c, uint32_t k) {
    for (const Flow& flow : of_copy(plan_.flows, c, k)) {
      const bool is_first = flow.first == receiver_;
      add(flow, flow.begin, flow.end, !is_first, is_first ? flow.source : flow.first,
          is_first ? 0 : 1);
    }
  }

  // The members of the sender's host read from `first`; of the other hosts, one reads from the
  // sender and the rest from that one.
  void with_entries(uint32_t c, uint32_t k) {
    const Copy& copy = plan_.balance.classes[c].copies[k];
    uint32_t mine = 0;
    while (!has(copy.entries[mine].members, receiver_)) ++mine;
    const auto all = of_copy(plan_.entries, c, k);
    const auto begin = std::partition_point(all.begin(), all.end(),
                                            [&](const EntryFlow& e) { return e.entry < mine; });
    const auto end =
        std::partition_point(begin, all.end(), [&](const EntryFlow& e) { return e.entry <= mine; });
    Walk walk(std::span<const EntryFlow>(begin, end));
    for (const Flow& flow : of_copy(plan_.flows, c, k)) {
      if (has(copy.entries[mine].members, flow.sender)) {
        const bool is_first = flow.first == receiver_;
        add(flow, flow.begin, flow.end, !is_first, is_first ? flow.source : flow.first,
            is_first ? 0 : 1);
        continue;
      }
      const uint32_t sender_stage = flow.sender == flow.first ? 0 : 1;
      for (uint64_t at = flow.begin; at < flow.end;) {
        const EntryFlow& entry = walk.at(at);
        const uint64_t until = std::min(flow.end, entry.end);
        const bool is_entry = entry.at == receiver_;
        add(flow, at, until, true, is_entry ? flow.sender : entry.at,
            sender_stage + (is_entry ? 1 : 2));
        at = until;
      }
    }
  }

  const FleetPlan& plan_;
  const uint32_t receiver_;
  std::vector<Hop> hops_;
};

}  // namespace

std::vector<Hop> hops_of(const FleetPlan& plan, uint32_t receiver) {
  return HopFinder(plan, receiver).run();
}

std::vector<FleetEdge> fleet_edges(const FleetPlan& plan) {
  std::vector<FleetEdge> edges;
  for (uint32_t r = 0; r < plan.balance.receiver_in.size(); ++r) {
    std::map<std::pair<bool, uint32_t>, FleetEdge> of_receiver;
    for (const Hop& hop : hops_of(plan, r)) {
      FleetEdge& edge = of_receiver[{hop.from_peer, hop.from}];
      edge = {r, hop.from_peer, hop.from, edge.bytes + (hop.end - hop.begin), edge.flows + 1};
    }
    for (const auto& [key, edge] : of_receiver) edges.push_back(edge);
  }
  return edges;
}

Result<FleetPlan> plan_fleet(const Fleet& fleet, const FleetOptions& options, FleetCache* cache) {
  FleetPlan plan;
  plan.fleet = fleet.digest();
  plan.options = options;
  FleetReport& report = plan.report;
  report.inputs = inputs_digest(fleet, options);
  const auto needed =
      piece_bytes(fleet.table(), fleet.receiver_index(), fleet.receiver_index().family_count());
  const auto stored =
      piece_bytes(fleet.table(), fleet.source_index(), fleet.source_index().family_count());
  if (!needed || !stored) {
    return Status(Code::kInvalidArgument, "the layouts of one side have 2^63 bytes or more");
  }
  report.needed_bytes = *needed;
  report.stored_bytes = *stored;

  WB_ASSIGN_OR_RETURN(plan.map, ClassMap::make(fleet, cache));
  report.atoms = plan.map->atom_count();
  report.atoms_reused = plan.map->atoms_reused();
  for (const ByteClass& c : plan.map->classes()) report.distinct_bytes += c.bytes;

  WB_ASSIGN_OR_RETURN(Balance given, balance(plan.map->classes(), fleet.cluster(), options.policy));
  plan.options.policy = given.policy;
  // Coarse if that is near enough, else whole rows, else any elements.
  for (const uint64_t unit : {options.cut_bytes, uint64_t{1}, uint64_t{0}}) {
    if (unit > options.cut_bytes) continue;
    Division division = divide(*plan.map, given, unit);
    plan.flows = std::move(division.flows);
    plan.entries = std::move(division.entries);
    plan.balance = given;
    account(fleet_edges(plan), fleet.cluster(), &plan.balance);
    if (unit == 0 || near_enough(given, plan.balance, fleet.cluster(), options.cut_bytes)) break;
  }
  size_t copies = 0;
  for (const ClassDivision& division : plan.balance.classes) copies += division.copies.size();
  report.cuts = plan.flows.size() - copies;
  return plan;
}

}  // namespace wb
