#include "plan/balance.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "base/checked.h"
#include "plan/copies.h"
#include "plan/draft.h"
#include "plan/loads.h"
#include "plan/needs.h"
#include "plan/ports.h"

namespace wb {
namespace {

constexpr uint64_t kLimit = uint64_t{1} << 62;      // sums of bytes, sums of speeds
constexpr uint64_t kEdgeLimit = uint64_t{1} << 28;  // so that numbers of edges fit 32 bits
constexpr std::string_view kNames[] = {"direct", "host", "fanout", "auto"};

Status invalid(std::string sentence) { return {Code::kInvalidArgument, std::move(sentence)}; }

bool add_below_limit(uint64_t* sum, uint64_t value) {
  const auto total = checked_add(*sum, value);
  if (!total || *total >= kLimit) return false;
  *sum = *total;
  return true;
}

Status check_hosts(const Cluster& cluster) {
  uint64_t speeds = 0;
  const auto too_fast = [] { return invalid("the speeds of the cluster sum to 2^62 or more"); };
  for (const Host& host : cluster.hosts) {
    for (size_t n = 0; n < host.nics.size(); ++n) {
      const uint64_t speed = host.nics[n].bytes_per_second;
      if (speed == 0) {
        return invalid("NIC " + std::to_string(n) + " of host " + host.name + " has speed 0");
      }
      // Twice: a NIC has two directions.
      if (!add_below_limit(&speeds, speed) || !add_below_limit(&speeds, speed)) return too_fast();
    }
  }
  const auto check_seats = [&](const std::vector<Seat>& seats, std::string_view kind) -> Status {
    for (size_t w = 0; w < seats.size(); ++w) {
      const auto who = [&] { return std::string(kind) + " " + std::to_string(w); };
      if (seats[w].host >= cluster.hosts.size()) {
        return invalid(who() + " sits on host " + std::to_string(seats[w].host) + " of " +
                       std::to_string(cluster.hosts.size()));
      }
      const Host& host = cluster.hosts[seats[w].host];
      if (seats[w].nic >= host.nics.size()) {
        return invalid(who() + " sits on NIC " + std::to_string(seats[w].nic) + " of host " +
                       host.name + ", which has " + std::to_string(host.nics.size()));
      }
      if (host.inside_bytes_per_second == 0) {
        return invalid("the inside of host " + host.name + " has speed 0");
      }
      if (!add_below_limit(&speeds, host.inside_bytes_per_second)) return too_fast();
    }
    return {};
  };
  WB_RETURN_IF_ERROR(check_seats(cluster.sources, "source"));
  return check_seats(cluster.receivers, "receiver");
}

Status check_workers(const std::vector<uint32_t>& workers, size_t known, std::string_view kind) {
  if (workers.empty()) return invalid("has no " + std::string(kind));
  for (size_t i = 0; i < workers.size(); ++i) {
    if (workers[i] >= known) {
      return invalid("names " + std::string(kind) + " " + std::to_string(workers[i]) + " of " +
                     std::to_string(known));
    }
    if (i > 0 && workers[i] <= workers[i - 1]) {
      return invalid("lists its " + std::string(kind) + "s out of order");
    }
  }
  return {};
}

Status check_classes(std::span<const ByteClass> classes, const Cluster& cluster) {
  uint64_t needed = 0, edges = 0;
  for (size_t c = 0; c < classes.size(); ++c) {
    const ByteClass& byte_class = classes[c];
    Status status = check_workers(byte_class.holders, cluster.sources.size(), "holder");
    if (status.ok()) {
      status = check_workers(byte_class.needers, cluster.receivers.size(), "needer");
    }
    if (status.ok() && byte_class.bytes == 0) status = invalid("has no bytes");
    if (!status.ok()) return std::move(status).prefixed("class " + std::to_string(c) + " ");
    const auto bytes = checked_mul(byte_class.bytes, uint64_t{byte_class.needers.size()});
    if (!bytes || !add_below_limit(&needed, *bytes)) {
      return invalid("the needed bytes sum to 2^62 or more");
    }
    edges += byte_class.holders.size() + 3 * byte_class.needers.size();
  }
  if (edges >= kEdgeLimit) return invalid("the classes name more than 2^28 workers");
  return {};
}

Balance write(const Draft& draft, Loads loads) {
  Balance out;
  out.policy = draft.policy();
  out.classes = write_copies(draft);
  const Ports& ports = draft.ports();
  const PortTasks& tasks = draft.tasks();
  for (uint32_t s = 0; s < ports.sources(); ++s) {
    out.source_bytes.push_back(tasks.load(ports.source_out(s)) +
                               tasks.load(ports.source_inside(s)));
  }
  for (uint32_t r = 0; r < ports.receivers(); ++r) {
    out.receiver_in.push_back(tasks.load(ports.receiver_in(r)));
    out.receiver_out.push_back(tasks.load(ports.receiver_out(r)));
  }
  out.loads = std::move(loads.reports);
  out.binds = loads.binds;
  out.nanoseconds = loads.nanoseconds;
  return out;
}

// Sharing makes receivers wait for each other: it must save something.
bool worthwhile(uint64_t nanoseconds, uint64_t best) { return nanoseconds < best - best / 100; }

}  // namespace

std::string_view policy_name(Policy policy) {
  const auto index = static_cast<size_t>(policy);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

Result<Balance> balance(std::span<const ByteClass> classes, const Cluster& cluster, Policy policy) {
  if (policy > Policy::kAuto) return invalid("there is no such policy");
  WB_RETURN_IF_ERROR(check_hosts(cluster));
  WB_RETURN_IF_ERROR(check_classes(classes, cluster));
  const Needs needs(classes, cluster);
  const Ports ports(cluster);
  std::unique_ptr<Draft> best;
  Loads best_loads;
  for (const Policy tried : {Policy::kDirect, Policy::kHost, Policy::kFanout}) {
    if (policy != tried && policy != Policy::kAuto) continue;
    auto draft = std::make_unique<Draft>(tried, needs, ports);
    Loads loads = measure(*draft, cluster);
    if (best != nullptr && !worthwhile(loads.nanoseconds, best_loads.nanoseconds)) continue;
    best = std::move(draft);
    best_loads = std::move(loads);
  }
  return write(*best, std::move(best_loads));
}

}  // namespace wb
