#include <algorithm>
#include <string>
#include <vector>

#include "cli/doctor/check.h"
#include "cli/doctor/findings.h"
#include "memory/near.h"

namespace wb::cli::doctor {
namespace {

struct Wish {
  Nearness good;    // this near or nearer
  const char* far;  // what is so where that is not met
};
constexpr Wish kGpuWish{Nearness::kRootComplex, "every byte goes through the processor"};
constexpr Wish kNodeWish{Nearness::kPackage, "every byte crosses between processors"};

// The devices of the nearest group, and how near that is.
void check_place(const Topology& topology, const std::vector<std::string>& devices,
                 const BufferPlace& place, const Wish& wish, const std::string& subject,
                 Findings* out) {
  const std::vector<RankedNic> ranked = rank_nics(topology, devices, place, 0);
  const Nearness best = ranked.front().nearness;
  std::string names;
  for (const RankedNic& nic : ranked) {
    if (nic.group == 0) names += (names.empty() ? "" : ", ") + devices[nic.device];
  }
  const std::string text = "nearest RDMA: " + names + " (" + std::string(nearness_name(best)) + ")";
  if (best <= wish.good || best == Nearness::kUnknown) return ok(out, subject, text);
  note(out, subject, text + ": " + wish.far,
       "keep the weights of a process near a NIC, or plug one in there");
}

}  // namespace

Findings check_near(const MachineFacts& facts) {
  Findings out;
  const Topology& topology = facts.memory.topology;
  std::vector<std::string> devices;
  for (const DeviceFacts& device : facts.rdma.devices) {
    if (!device.software) devices.push_back(device.name);
  }
  if (devices.empty()) return out;
  for (const TopologyGpu& gpu : topology.gpus) {
    check_place(topology, devices, {gpu.place.bus_id, {}}, kGpuWish, "near gpu " + gpu.place.bus_id,
                &out);
  }
  if (topology.nodes.size() < 2) return out;  // then all NICs are as near
  for (const NumaNode& node : topology.nodes) {
    if (node.bytes == 0) continue;
    check_place(topology, devices, {"", {{node.index, 1}}}, kNodeWish,
                "near node " + std::to_string(node.index), &out);
  }
  return out;
}

}  // namespace wb::cli::doctor
