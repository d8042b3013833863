#include "plan/ports.h"

#include <algorithm>
#include <numeric>

namespace wb {

Ports::Ports(const Cluster& cluster)
    : sources_(static_cast<uint32_t>(cluster.sources.size())),
      receivers_(static_cast<uint32_t>(cluster.receivers.size())) {
  std::vector<uint32_t> first_nic;  // by host
  for (const Host& host : cluster.hosts) {
    first_nic.push_back(nics());
    for (const Nic& nic : host.nics) {
      const uint32_t out = carriers();
      speeds_.push_back(nic.bytes_per_second);
      if (nic.full_duplex) speeds_.push_back(nic.bytes_per_second);
      nics_.push_back({out, nic.full_duplex ? out + 1 : out});
    }
  }
  const auto nic_of = [&](const Seat& seat) { return nics_[first_nic[seat.host] + seat.nic]; };
  for (const Seat& seat : cluster.sources) carrier_.push_back(nic_of(seat).out);
  for (const Seat& seat : cluster.receivers) carrier_.push_back(nic_of(seat).in);
  for (const Seat& seat : cluster.receivers) carrier_.push_back(nic_of(seat).out);
  for (const auto* seats : {&cluster.sources, &cluster.receivers}) {
    for (const Seat& seat : *seats) {
      carrier_.push_back(carriers());
      speeds_.push_back(cluster.hosts[seat.host].inside_bytes_per_second);
    }
  }
  std::vector<bool> used(carriers());
  for (const uint32_t carrier : carrier_) {
    shared_ |= used[carrier];
    used[carrier] = true;
  }
}

uint32_t Ports::worker(uint32_t port) const {
  // In the order in which ports are numbered.
  for (const uint32_t workers : {sources_, receivers_, receivers_, sources_}) {
    if (port < workers) return port;
    port -= workers;
  }
  return port;
}

PortTasks::PortTasks(const Ports& ports) : ports_(ports), fixed_(ports.size()) {}

uint32_t PortTasks::add(uint64_t bytes, uint64_t weight, std::span<const uint32_t> ports) {
  tasks_.push_back({bytes, weight});
  task_ports_.insert(task_ports_.end(), ports.begin(), ports.end());
  port_begin_.push_back(static_cast<uint32_t>(task_ports_.size()));
  return static_cast<uint32_t>(tasks_.size() - 1);
}

void PortTasks::solve() {
  const FlowDivision division = over_carriers();
  level_ = division.level;
  keep(over_ports(division));
}

FlowDivision PortTasks::over_carriers() {
  FlowProblem problem;
  for (uint32_t c = 0; c < ports_.carriers(); ++c) problem.nodes.push_back({ports_.speed(c), 0});
  for (uint32_t p = 0; p < ports_.size(); ++p) {
    problem.nodes[ports_.carrier(p)].base += fixed_[p];
  }
  std::vector<uint32_t> carriers;
  for (uint32_t t = 0; t < tasks_.size(); ++t) {
    carriers.clear();
    for (uint32_t i = port_begin_[t]; i < port_begin_[t + 1]; ++i) {
      carriers.push_back(ports_.carrier(task_ports_[i]));
    }
    std::sort(carriers.begin(), carriers.end());
    carriers.erase(std::unique(carriers.begin(), carriers.end()), carriers.end());
    problem.add(tasks_[t].bytes * tasks_[t].weight, carriers);
  }
  return divide(problem);
}

// What a task has on one carrier is divided over the task's ports there, as evenly as possible.
// Shares name ports instead of carriers afterwards.
std::vector<FlowShare> PortTasks::over_ports(const FlowDivision& division) const {
  FlowProblem problem;
  for (const uint64_t fixed : fixed_) problem.nodes.push_back({1, fixed});
  std::vector<uint32_t> ports;
  for (const FlowShare& share : division.shares) {
    ports.clear();
    for (uint32_t i = port_begin_[share.task]; i < port_begin_[share.task + 1]; ++i) {
      if (ports_.carrier(task_ports_[i]) == share.node) ports.push_back(task_ports_[i]);
    }
    problem.add(share.amount, ports);
  }
  std::vector<FlowShare> shares;
  if (ports_.shared()) {
    shares = divide(problem).shares;
  } else {
    for (uint32_t i = 0; i < problem.tasks(); ++i) {
      shares.push_back({i, problem.options[i], problem.amounts[i]});
    }
  }
  for (FlowShare& share : shares) share.task = division.shares[share.task].task;
  return shares;
}

void PortTasks::keep(const std::vector<FlowShare>& shares) {
  load_ = fixed_;
  share_begin_.push_back(0);
  for (size_t begin = 0; begin < shares.size();) {
    size_t end = begin;
    while (end < shares.size() && shares[end].task == shares[begin].task) ++end;
    keep_task(shares[begin].task, {shares.data() + begin, shares.data() + end});
    share_begin_.push_back(static_cast<uint32_t>(shares_.size()));
    begin = end;
  }
}

// A port sends a byte to all or to none: shares become multiples of the weight, those that lose
// most by rounding down getting the bytes that are left.
void PortTasks::keep_task(uint32_t task, std::span<const FlowShare> shares) {
  const uint64_t weight = tasks_[task].weight;
  uint64_t left = tasks_[task].bytes;
  for (const FlowShare& share : shares) left -= share.amount / weight;
  std::vector<uint32_t> order(shares.size());
  std::iota(order.begin(), order.end(), 0u);
  if (left > 0) {
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return shares[a].amount % weight > shares[b].amount % weight;
    });
  }
  std::vector<uint64_t> bytes(shares.size());
  for (const uint32_t i : order) {
    bytes[i] = shares[i].amount / weight;
    if (left > 0) {
      ++bytes[i];
      --left;
    }
  }
  for (uint32_t i = 0; i < shares.size(); ++i) {
    if (bytes[i] == 0) continue;
    shares_.push_back({shares[i].node, bytes[i]});
    load_[shares[i].node] += bytes[i] * weight;
  }
}

}  // namespace wb
