#include "transport/verbs/numa.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>

namespace wb::verbs {
namespace {

// The processor's folder in /sys has an entry "node3".
int node_of(int processor) {
  constexpr std::string_view kPrefix = "node";
  std::error_code error;
  const std::filesystem::directory_iterator entries(
      "/sys/devices/system/cpu/cpu" + std::to_string(processor), error);
  if (error) return -1;
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(kPrefix, 0) != 0) continue;
    int node = -1;
    const char* const digits = name.data() + kPrefix.size();
    const auto [end, failed] = std::from_chars(digits, name.data() + name.size(), node);
    if (failed == std::errc() && end == name.data() + name.size()) return node;
  }
  return -1;
}

}  // namespace

int own_numa_node() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails where the machine has more processors than the set: then they are of several nodes.
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return -1;
  int found = -1;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(static_cast<size_t>(processor), &allowed)) continue;
    const int node = node_of(processor);
    if (node < 0 || (found >= 0 && node != found)) return -1;
    found = node;
  }
  return found;
}

std::string far_from_nics(std::span<const NodePages> pages, std::span<const int> nic_nodes) {
  uint64_t all = 0, near = 0;
  NodePages most;
  for (const NodePages& node : pages) {
    all += node.pages;
    if (node.pages > most.pages) most = node;
    for (const int nic : nic_nodes) {
      if (nic < 0) return {};
      if (static_cast<uint32_t>(nic) != node.node) continue;
      near += node.pages;
      break;
    }
  }
  if (nic_nodes.empty() || all == 0 || near >= all - near) return {};
  std::string nodes;
  for (size_t i = 0; i < nic_nodes.size(); ++i) {
    if (std::find(nic_nodes.begin(), nic_nodes.begin() + static_cast<ptrdiff_t>(i), nic_nodes[i]) !=
        nic_nodes.begin() + static_cast<ptrdiff_t>(i)) {
      continue;
    }
    nodes += (nodes.empty() ? "" : ", ") + std::to_string(nic_nodes[i]);
  }
  return "the memory lies on NUMA node " + std::to_string(most.node) + ", the NICs on " + nodes +
         ": every byte crosses between processors; bind the process to the NICs' node, or name "
         "other devices";
}

}  // namespace wb::verbs
