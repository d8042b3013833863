#include "memory/near.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace wb {
namespace {

// What sorts devices: the mean number of steps from the buffer's pages to the device, in
// thousandths.
struct Distance {
  uint64_t steps = 0;
  Nearness nearness = Nearness::kUnknown;
  std::string why;
};
constexpr uint64_t kUnknownSteps = UINT64_MAX;
constexpr uint64_t kScale = 1000;
// Half a buffer on each of two nodes is never exactly half: less than this is no difference.
constexpr uint64_t kRounding = 50;

std::string list(const std::vector<uint32_t>& nodes) {
  std::string text;
  for (const uint32_t node : nodes) text += (text.empty() ? "" : ",") + std::to_string(node);
  return text;
}

bool share_node(const PciPlace& a, const PciPlace& b) {
  return std::any_of(a.nodes.begin(), a.nodes.end(), [&](uint32_t node) {
    return std::find(b.nodes.begin(), b.nodes.end(), node) != b.nodes.end();
  });
}

Nearness to_node(const Topology& topology, const PciPlace& nic, uint32_t node) {
  const NumaNode* wanted = topology.node(node);
  if (wanted == nullptr || nic.nodes.empty()) return Nearness::kUnknown;
  if (std::find(nic.nodes.begin(), nic.nodes.end(), node) != nic.nodes.end()) {
    return Nearness::kNode;
  }
  const bool package = std::any_of(nic.nodes.begin(), nic.nodes.end(), [&](uint32_t own) {
    const NumaNode* here = topology.node(own);
    return here != nullptr && here->package == wanted->package;
  });
  return package ? Nearness::kPackage : Nearness::kRemote;
}

// The first bridge is the host bridge, the second a root port: two devices below one root port
// have a switch above them.
Nearness to_gpu(const Topology& topology, const PciPlace& nic, const PciPlace& gpu) {
  size_t common = 0;
  while (common < nic.bridges.size() && common < gpu.bridges.size() &&
         nic.bridges[common] == gpu.bridges[common]) {
    ++common;
  }
  if (common >= 2) return Nearness::kSwitch;
  if (common == 1) return Nearness::kRootComplex;
  if (nic.nodes.empty() || gpu.nodes.empty()) return Nearness::kUnknown;
  if (share_node(nic, gpu)) return Nearness::kNode;
  Nearness best = Nearness::kRemote;
  for (const uint32_t node : gpu.nodes) best = std::min(best, to_node(topology, nic, node));
  return best;
}

Distance unknown(std::string why) { return {kUnknownSteps, Nearness::kUnknown, std::move(why)}; }

Distance gpu_distance(const Topology& topology, const PciPlace& nic, const std::string& bus_id) {
  const TopologyGpu* gpu = topology.gpu(bus_id);
  if (gpu == nullptr) return unknown("the topology does not show GPU " + bus_id);
  const Nearness nearness = to_gpu(topology, nic, gpu->place);
  if (nearness == Nearness::kUnknown) return unknown("its place on the PCIe is not known");
  return {static_cast<uint64_t>(nearness) * kScale, nearness,
          std::string(nearness_name(nearness)) + " as GPU " + bus_id};
}

Distance memory_distance(const Topology& topology, const PciPlace& nic,
                         const std::vector<NodePages>& pages) {
  uint64_t total = 0;
  std::array<uint64_t, static_cast<size_t>(Nearness::kUnknown) + 1> by_nearness{};
  for (const NodePages& part : pages) {
    by_nearness[static_cast<size_t>(to_node(topology, nic, part.node))] += part.pages;
    total += part.pages;
  }
  if (total == 0) return unknown("where the buffer lies is not known");
  if (nic.nodes.empty()) return unknown("its NUMA node is not known");
  Distance distance;
  double steps = 0;
  size_t most = 0;
  for (size_t i = 0; i < by_nearness.size(); ++i) {
    steps +=
        static_cast<double>(by_nearness[i]) / static_cast<double>(total) * static_cast<double>(i);
    if (by_nearness[i] > by_nearness[most]) most = i;
  }
  distance.steps = static_cast<uint64_t>(std::llround(steps * double{kScale} / double{kRounding}));
  distance.nearness = static_cast<Nearness>(most);
  const uint64_t percent = static_cast<uint64_t>(100.0 * static_cast<double>(by_nearness[most]) /
                                                 static_cast<double>(total));
  distance.why = std::string(nearness_name(distance.nearness)) + " (" + list(nic.nodes) + ") as " +
                 (percent >= 100 ? "all" : std::to_string(percent) + " %") + " of the buffer";
  return distance;
}

}  // namespace

std::string_view nearness_name(Nearness nearness) {
  switch (nearness) {
    case Nearness::kSwitch:
      return "same PCIe switch";
    case Nearness::kRootComplex:
      return "same root complex";
    case Nearness::kNode:
      return "same NUMA node";
    case Nearness::kPackage:
      return "same processor package";
    case Nearness::kRemote:
      return "another processor package";
    case Nearness::kUnknown:
      return "place unknown";
  }
  return "place unknown";
}

std::vector<RankedNic> rank_nics(const Topology& topology, std::span<const std::string> devices,
                                 const BufferPlace& buffer, uint32_t turn) {
  std::vector<Distance> distances;
  distances.reserve(devices.size());
  for (const std::string& name : devices) {
    const TopologyNic* nic = topology.nic(name);
    distances.push_back(nic == nullptr ? unknown("the topology does not show it")
                        : !buffer.gpu.empty()
                            ? gpu_distance(topology, nic->place, buffer.gpu)
                            : memory_distance(topology, nic->place, buffer.nodes));
  }
  std::vector<size_t> order(devices.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (distances[a].steps != distances[b].steps) return distances[a].steps < distances[b].steps;
    return name_before(devices[a], devices[b]);
  });

  std::vector<RankedNic> ranked;
  ranked.reserve(order.size());
  uint32_t group = 0;
  for (size_t begin = 0; begin < order.size(); ++group) {
    size_t end = begin;
    while (end < order.size() && distances[order[end]].steps == distances[order[begin]].steps) {
      ++end;
    }
    for (size_t i = begin; i < end; ++i) {
      const size_t device = order[begin + (i - begin + turn) % (end - begin)];
      ranked.push_back({device, distances[device].nearness, group,
                        devices[device] + ": " + distances[device].why});
    }
    begin = end;
  }
  return ranked;
}

}  // namespace wb
