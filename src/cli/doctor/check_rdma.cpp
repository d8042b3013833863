#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"
#include "cli/doctor/check.h"
#include "cli/doctor/findings.h"
#include "cli/reporter.h"

namespace wb::cli::doctor {
namespace {

// What ConnectX devices can; less bounds the rate of small reads.
constexpr uint32_t kUsualReads = 16;
// RoCE packets of 4096 bytes with their headers.
constexpr uint32_t kMtuFor4096 = 4200;

bool has_address(const PortFacts& port) {
  return port.infiniband || std::any_of(port.gids.begin(), port.gids.end(),
                                        [](const GidFacts& gid) { return gid.roce2; });
}

bool can_read(const DeviceFacts& device) {
  return device.node_error == 0 && !device.node.empty() && device.in_library &&
         device.open_error.empty() &&
         (!device.caps || (device.caps->reads_as_reader > 0 && device.caps->reads_as_source > 0));
}

void check_device(const DeviceFacts& device, bool library, Findings* out) {
  const std::string subject = "rdma " + device.name;
  if (device.node.empty()) {
    return problem(out, subject, "the kernel has no uverbs file for it",
                   "load the user verbs module: modprobe ib_uverbs");
  }
  if (device.node_error != 0) {
    return problem(
        out, subject,
        fmt::format("{} cannot be opened: {}", device.node, error_text(device.node_error)),
        "pass the files into the container (--device /dev/infiniband, or the cluster's "
        "RDMA device plugin), or let this user open them");
  }
  if (!library) return;  // said once, for all devices
  if (!device.in_library) {
    return problem(out, subject, "libibverbs has no provider for it",
                   "install the providers (Debian: apt install ibverbs-providers)");
  }
  if (!device.open_error.empty()) {
    return problem(out, subject, "libibverbs cannot open it: " + device.open_error,
                   "see dmesg for its driver, and that user library and driver are of one release");
  }
  std::string text = device.software ? "software RDMA" : device.driver;
  if (!device.firmware.empty()) text += ", firmware " + device.firmware;
  if (!device.caps) return ok(out, subject, text);
  const DeviceCaps& caps = *device.caps;
  text += fmt::format(", {} reads in flight per queue pair as reader and {} as source, {} regions",
                      caps.reads_as_reader, caps.reads_as_source, caps.max_regions);
  if (caps.reads_as_reader == 0 || caps.reads_as_source == 0) {
    return problem(out, subject, text + ": it cannot do RDMA READ",
                   "use --transport ucx, or another device");
  }
  if (device.software) {
    return note(out, subject, text + ": good for tests, slow",
                "use a machine with an RDMA NIC for anything but tests");
  }
  if (std::min(caps.reads_as_reader, caps.reads_as_source) < kUsualReads) {
    return note(out, subject, text + ": few reads in flight bound the rate of small reads",
                "update the firmware; with ConnectX it should be 16");
  }
  ok(out, subject, text);
}

void check_state(const PortFacts& port, const std::string& subject, bool needed, Findings* out) {
  const std::string text = fmt::format("is {} ({})", port.state, port.physical);
  if (port.infiniband && port.state == "INIT") {
    return missing(out, needed, subject, text + ": no subnet manager has configured it",
                   "start a subnet manager (opensm, or the switch's) on this fabric");
  }
  if (port.physical == "Disabled" && !port.netdev.empty()) {
    return missing(out, needed, subject, text,
                   "bring its network device up: ip link set " + port.netdev + " up");
  }
  missing(out, needed, subject, text, "see the cable, the switch and the port's configuration");
}

void check_addresses(const PortFacts& port, const std::string& subject, Findings* out) {
  if (port.infiniband) return;
  const GidFacts* best = nullptr;
  for (const GidFacts& gid : port.gids) {
    if (gid.roce2 && (best == nullptr || (best->link_local && !gid.link_local))) best = &gid;
  }
  const std::string device = port.netdev.empty() ? "its network device" : port.netdev;
  if (best == nullptr) {
    return problem(out, subject, "no RoCE v2 address (GID)",
                   "give " + device +
                       " an IP address; in a container use the host's network, or the cluster's "
                       "RDMA network plugin");
  }
  if (best->link_local) {
    return note(out, subject,
                fmt::format("only a link-local RoCE v2 address: {} at index {}", best->address,
                            best->index),
                "give " + device + " an IP address, so that other subnets can reach it");
  }
  ok(out, subject, fmt::format("RoCE v2 address {} at index {}", best->address, best->index));
}

void check_mtu(const PortFacts& port, const std::string& subject, Findings* out) {
  if (port.active_mtu == 0 || port.active_mtu >= 4096) return;
  const std::string text = fmt::format("packets of {} bytes, 4096 are possible", port.active_mtu);
  if (port.infiniband) {
    return note(out, subject, text,
                "let the subnet manager's partition use MTU 4096 (mtu=5 in partitions.conf)");
  }
  const std::string device = port.netdev.empty() ? "its network device" : port.netdev;
  if (port.netdev_mtu >= kMtuFor4096) {
    return note(out, subject,
                text + fmt::format(", although {}'s MTU is {}", device, port.netdev_mtu),
                "bring the port down and up again, so that it takes the MTU of " + device);
  }
  note(out, subject, text,
       "set jumbo frames here and on the switch: ip link set " + device + " mtu 9000");
}

void check_port(const DeviceFacts& device, const PortFacts& port, bool needed, Findings* out) {
  const std::string subject = fmt::format("port {}:{}", device.name, port.number);
  if (port.state != "ACTIVE") return check_state(port, subject, needed, out);
  ok(out, subject,
     fmt::format("ACTIVE, {} at {:g} Gbit/s{}{}", port.infiniband ? "InfiniBand" : "Ethernet",
                 port.gbps, port.netdev.empty() ? "" : ", " + port.netdev,
                 port.active_mtu == 0 ? "" : fmt::format(", packets of {}", port.active_mtu)));
  check_addresses(port, subject, out);
  check_mtu(port, subject, out);
  if (port.lost_packets > 0) {
    note(out, subject,
         fmt::format("{} packets were lost, late or out of order since the driver started",
                     port.lost_packets),
         port.infiniband ? "see the cable and the switch's error counters"
                         : "make the network lossless for RDMA: PFC or ECN on NIC and switch");
  }
}

}  // namespace

bool usable_rdma(const MachineFacts& facts) {
  if (!facts.rdma.library_error.empty()) return false;
  const auto& devices = facts.rdma.devices;
  return std::any_of(devices.begin(), devices.end(), [](const DeviceFacts& device) {
    return can_read(device) &&
           std::any_of(device.ports.begin(), device.ports.end(), [](const PortFacts& port) {
             return port.state == "ACTIVE" && has_address(port);
           });
  });
}

Findings check_rdma(const MachineFacts& facts, const Needs& needs) {
  Findings out;
  const RdmaFacts& rdma = facts.rdma;
  for (const std::string& card : rdma.cards_without_device) {
    problem(&out, "rdma", "the RDMA card at " + card + " has no RDMA device",
            "load its driver (ConnectX: modprobe mlx5_ib); in a container, pass the device in");
  }
  if (rdma.devices.empty()) {
    missing(&out, needs.verbs, "rdma", "no RDMA device in /sys/class/infiniband",
            "use a machine with an RDMA NIC and its driver; in a container, pass the devices in");
    return out;
  }
  if (!rdma.library_error.empty()) {
    problem(&out, "rdma", rdma.library_error,
            "install rdma-core's user library (Debian: apt install libibverbs1 ibverbs-providers)");
  }
  for (const DeviceFacts& device : rdma.devices) {
    check_device(device, rdma.library_error.empty(), &out);
    for (const PortFacts& port : device.ports) {
      // One port of many that is down is a choice; when none is left it is the reason.
      check_port(device, port, needs.verbs && !usable_rdma(facts), &out);
    }
  }
  if (!usable_rdma(facts)) {
    missing(&out, needs.verbs, "rdma", "no port of any device can carry reads now",
            "see the lines above; the transports local and ucx do not need one");
  }
  return out;
}

}  // namespace wb::cli::doctor
