#include "cli/doctor/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/exit_code.h"

namespace wb::cli::doctor {
namespace {

using nlohmann::json;

json pci_json(const PciFacts& pci) {
  json out = {{"bus_id", pci.bus_id},
              {"lanes", pci.lanes},
              {"gts", pci.link_gts},
              {"iommu", pci.iommu},
              {"acs_redirecting_bridges", pci.redirecting_bridges}};
  if (pci.relaxed_ordering) out["relaxed_ordering"] = *pci.relaxed_ordering;
  if (pci.max_read_request) out["max_read_request"] = *pci.max_read_request;
  return out;
}

json port_json(const PortFacts& port) {
  json gids = json::array();
  for (const GidFacts& gid : port.gids) {
    gids.push_back({{"index", gid.index},
                    {"address", gid.address},
                    {"type", gid.roce2         ? "RoCE v2"
                             : port.infiniband ? "InfiniBand"
                                               : "RoCE v1"},
                    {"netdev", gid.netdev}});
  }
  return {{"port", port.number},
          {"state", port.state},
          {"physical", port.physical},
          {"link_layer", port.infiniband ? "InfiniBand" : "Ethernet"},
          {"gbps", port.gbps},
          {"mtu", port.active_mtu},
          {"netdev", port.netdev},
          {"netdev_mtu", port.netdev_mtu},
          {"lost_packets", port.lost_packets},
          {"gids", gids}};
}

json device_json(const MachineFacts& facts, const DeviceFacts& device) {
  json out = {{"name", device.name},
              {"driver", device.driver},
              {"firmware", device.firmware},
              {"software", device.software},
              {"file", device.node}};
  if (device.caps) {
    out["reads_as_reader"] = device.caps->reads_as_reader;
    out["reads_as_source"] = device.caps->reads_as_source;
    out["max_regions"] = device.caps->max_regions;
    out["max_region_bytes"] = device.caps->max_region_bytes;
    out["max_scatter"] = device.caps->max_scatter;
  }
  if (device.pci) out["pci"] = pci_json(*device.pci);
  if (const TopologyNic* nic = facts.memory.topology.nic(device.name)) {
    out["numa_nodes"] = nic->place.nodes;
  }
  out["ports"] = json::array();
  for (const PortFacts& port : device.ports) out["ports"].push_back(port_json(port));
  return out;
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

}  // namespace

std::string report_text(const Findings& findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.subject.size());
  size_t notes = 0, problems = 0;
  std::string text;
  for (const Finding& finding : findings) {
    notes += finding.verdict == Verdict::kNote;
    problems += finding.verdict == Verdict::kProblem;
    const std::string verdict(finding.verdict == Verdict::kOk     ? "OK"
                              : finding.verdict == Verdict::kNote ? "note"
                                                                  : "PROBLEM");
    text += fmt::format("{}  {}  {}\n", padded(verdict, 7), padded(finding.subject, width),
                        printable(finding.text));
    if (!finding.cure.empty()) {
      text +=
          fmt::format("{}  {}  -> {}\n", padded("", 7), padded("", width), printable(finding.cure));
    }
  }
  text += fmt::format("{} problem{}, {} note{}", problems, problems == 1 ? "" : "s", notes,
                      notes == 1 ? "" : "s");
  return text;
}

json report_json(const MachineFacts& facts, const Findings& findings) {
  json out = {{"verdict", verdict_name(worst(findings))},
              {"kernel", facts.kernel},
              {"findings", json::array()},
              {"devices", json::array()},
              {"gpus", json::array()},
              {"numa_nodes", json::array()},
              {"ucx", {{"version", facts.ucx.version}, {"transports", facts.ucx.transports}}}};
  for (const Finding& finding : findings) {
    out["findings"].push_back({{"subject", finding.subject},
                               {"verdict", verdict_name(finding.verdict)},
                               {"text", finding.text},
                               {"cure", finding.cure}});
  }
  for (const DeviceFacts& device : facts.rdma.devices) {
    out["devices"].push_back(device_json(facts, device));
  }
  for (const GpuFacts& gpu : facts.cuda.gpus) {
    out["gpus"].push_back({{"name", gpu.name}, {"bus_id", gpu.bus_id}, {"dmabuf", gpu.dmabuf}});
  }
  for (const NumaNode& node : facts.memory.topology.nodes) {
    out["numa_nodes"].push_back(
        {{"index", node.index}, {"package", node.package}, {"bytes", node.bytes}});
  }
  return out;
}

}  // namespace wb::cli::doctor
