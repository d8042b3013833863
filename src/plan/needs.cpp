#include "plan/needs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace wb {

Needs::Needs(std::span<const ByteClass> classes, const Cluster& cluster) : classes_(classes) {
  number_hosts(cluster);
  sort_classes();
  size_t workers = 0;
  for (const ByteClass& byte_class : classes) {
    workers += byte_class.holders.size() + byte_class.needers.size();
  }
  workers_.reserve(workers);
  for (const ByteClass& byte_class : classes) {
    add(byte_class);
    begin_.push_back(static_cast<uint32_t>(needs_.size()));
  }
}

void Needs::number_hosts(const Cluster& cluster) {
  std::map<uint32_t, uint32_t> of_domain;
  std::vector<uint32_t> number;
  for (const Host& host : cluster.hosts) {
    if (host.domain == 0) {
      number.push_back(hosts_++);
      continue;
    }
    const auto [at, added] = of_domain.try_emplace(host.domain, hosts_);
    if (added) ++hosts_;
    number.push_back(at->second);
  }
  for (const Seat& seat : cluster.sources) source_host_.push_back(number[seat.host]);
  for (const Seat& seat : cluster.receivers) receiver_host_.push_back(number[seat.host]);
}

void Needs::sort_classes() {
  order_.resize(classes_.size());
  std::iota(order_.begin(), order_.end(), 0u);
  std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    const auto key = [](const ByteClass& c) { return std::tie(c.holders, c.needers, c.bytes); };
    return key(classes_[a]) < key(classes_[b]);
  });
}

void Needs::add(const ByteClass& byte_class) {
  const auto by_host = [&](std::span<const uint32_t> workers, std::span<const uint32_t> host) {
    const size_t begin = workers_.size();
    workers_.insert(workers_.end(), workers.begin(), workers.end());
    std::stable_sort(workers_.begin() + static_cast<std::ptrdiff_t>(begin), workers_.end(),
                     [&](uint32_t a, uint32_t b) { return host[a] < host[b]; });
    return std::span<const uint32_t>(workers_).subspan(begin);
  };
  const auto holders = by_host(byte_class.holders, source_host_);
  const auto needers = by_host(byte_class.needers, receiver_host_);
  size_t holder = 0;
  for (size_t begin = 0; begin < needers.size();) {
    const uint32_t host = receiver_host_[needers[begin]];
    size_t end = begin;
    while (end < needers.size() && receiver_host_[needers[end]] == host) ++end;
    while (holder < holders.size() && source_host_[holders[holder]] < host) ++holder;
    size_t last = holder;
    while (last < holders.size() && source_host_[holders[last]] == host) ++last;
    needs_.push_back({needers.subspan(begin, end - begin), holders.subspan(holder, last - holder)});
    begin = end;
  }
}

}  // namespace wb
