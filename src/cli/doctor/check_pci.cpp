#include <fmt/format.h>

#include <algorithm>

#include "cli/doctor/check.h"
#include "cli/doctor/findings.h"

namespace wb::cli::doctor {
namespace {

// What a link carries of data: line code, then about a tenth for packet headers.
double pcie_gbps(double gts, uint32_t lanes) {
  const double code = gts < 8 ? 0.8 : 128.0 / 130.0;
  return gts * lanes * code * 0.9;
}

double fastest_port(const DeviceFacts& device) {
  double gbps = 0;
  for (const PortFacts& port : device.ports) gbps = std::max(gbps, port.gbps);
  return gbps;
}

void check_link(const DeviceFacts& device, const PciFacts& pci, const std::string& subject,
                Findings* out) {
  if (pci.link_gts == 0 || pci.lanes == 0) return;  // virtual functions do not tell
  const std::string text = fmt::format("PCIe x{} at {:g} GT/s", pci.lanes, pci.link_gts);
  if (pci.lanes < pci.max_lanes || pci.link_gts < pci.link_max_gts) {
    return note(
        out, subject,
        text + fmt::format(", the card can x{} at {:g} GT/s", pci.max_lanes, pci.link_max_gts),
        "move the card to a slot that is as wide and fast, or reseat it");
  }
  const double port = fastest_port(device);
  if (pcie_gbps(pci.link_gts, pci.lanes) < port * 0.97) {
    return note(out, subject,
                text + fmt::format(" carries about {:.0f} Gbit/s, the port {:g}",
                                   pcie_gbps(pci.link_gts, pci.lanes), port),
                "use a slot with more lanes or a newer PCIe generation");
  }
  ok(out, subject, text);
}

void check_ordering(const PciFacts& pci, const std::string& subject, Findings* out) {
  if (!pci.relaxed_ordering) return;
  if (*pci.relaxed_ordering) {
    return ok(out, subject,
              fmt::format("relaxed ordering is enabled{}",
                          pci.max_read_request
                              ? fmt::format(", read requests of {} bytes", *pci.max_read_request)
                              : ""));
  }
  note(out, subject, "PCIe relaxed ordering is off: reads may not reach line rate",
       "enable relaxed ordering for this slot in the BIOS (on AMD, also Preferred IO)");
}

void check_iommu(const PciFacts& pci, const std::string& subject, Findings* out) {
  if (!pci.iommu.starts_with("DMA")) return;
  note(out, subject, "the IOMMU translates its addresses (" + pci.iommu + ")",
       "boot with iommu=pt, unless the machine needs the isolation");
}

void check_acs(const PciFacts& pci, const std::string& subject, bool has_gpu, Findings* out) {
  if (!has_gpu) return;  // host memory is behind the root complex anyway
  if (pci.bridges_hidden) {
    return note(out, subject, "whether ACS detours GPU traffic can be seen by root only",
                "run the doctor once as root");
  }
  if (pci.redirecting_bridges.empty()) return ok(out, subject, "no ACS between it and the GPUs");
  std::string bridges;
  for (const std::string& bridge : pci.redirecting_bridges) {
    bridges += (bridges.empty() ? "" : ", ") + bridge;
  }
  note(out, subject, "ACS sends its traffic with GPUs through the root complex (" + bridges + ")",
       "disable ACS on these bridges in the BIOS, or: setpci -s BRIDGE ECAP_ACS+6.w=0");
}

}  // namespace

Findings check_pci(const MachineFacts& facts) {
  Findings out;
  for (const DeviceFacts& device : facts.rdma.devices) {
    if (!device.pci) continue;
    const std::string subject = "pci " + device.name;
    check_link(device, *device.pci, subject, &out);
    check_ordering(*device.pci, subject, &out);
    check_iommu(*device.pci, subject, &out);
    check_acs(*device.pci, subject, !facts.memory.topology.gpus.empty(), &out);
  }
  return out;
}

}  // namespace wb::cli::doctor
