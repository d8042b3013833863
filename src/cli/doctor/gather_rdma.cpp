#include <arpa/inet.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "cli/doctor/gather.h"
#include "cli/doctor/pci_config.h"
#include "cli/doctor/sysfs.h"

namespace wb::cli::doctor {
namespace {

namespace fs = std::filesystem;

// "4: ACTIVE" is ACTIVE.
std::string after_colon(const std::string& text) {
  const size_t at = text.find(": ");
  return at == std::string::npos ? text : text.substr(at + 2);
}

// The table's text is an IPv6 address written in full.
bool parse_gid(const std::string& text, GidFacts* gid) {
  in6_addr address{};
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return false;
  if (IN6_IS_ADDR_UNSPECIFIED(&address)) return false;
  char buffer[INET6_ADDRSTRLEN] = {};
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    inet_ntop(AF_INET, address.s6_addr + 12, buffer, sizeof buffer);
    gid->link_local = address.s6_addr[12] == 169 && address.s6_addr[13] == 254;
  } else {
    inet_ntop(AF_INET6, &address, buffer, sizeof buffer);
    gid->link_local = IN6_IS_ADDR_LINKLOCAL(&address);
  }
  gid->address = buffer;
  return true;
}

PortFacts port_facts(const std::string& root, const std::string& folder, uint32_t number) {
  PortFacts port;
  port.number = number;
  port.state = after_colon(read_line(folder + "/state"));
  port.physical = after_colon(read_line(folder + "/phys_state"));
  port.infiniband = read_line(folder + "/link_layer") == "InfiniBand";
  port.gbps = leading_number(read_line(folder + "/rate"));
  port.subnet_manager = static_cast<uint32_t>(number_in(folder + "/sm_lid"));
  for (const std::string& index : names_in(folder + "/gids")) {
    GidFacts gid;
    gid.index = static_cast<uint32_t>(leading_number(index));
    if (!parse_gid(read_line(folder + "/gids/" + index), &gid)) continue;
    gid.roce2 = read_line(folder + "/gid_attrs/types/" + index) == "RoCE v2";
    gid.netdev = read_line(folder + "/gid_attrs/ndevs/" + index);
    if (port.netdev.empty()) port.netdev = gid.netdev;
    port.gids.push_back(std::move(gid));
  }
  if (!port.netdev.empty()) {
    port.netdev_mtu =
        static_cast<uint32_t>(number_in(root + "/sys/class/net/" + port.netdev + "/mtu"));
  }
  for (const char* counter : {"out_of_sequence", "packet_seq_err", "local_ack_timeout_err"}) {
    port.lost_packets += number_in(folder + "/hw_counters/" + counter);
  }
  return port;
}

// `folder` is the device's real folder: the names of the bridges above it are part of its path.
PciFacts pci_facts(const fs::path& folder) {
  constexpr size_t kConfigBytes = 4096;
  PciFacts pci;
  pci.bus_id = folder.filename().string();
  pci.iommu = read_line(folder / "iommu_group/type");
  pci.link_gts = leading_number(read_line(folder / "current_link_speed"));
  pci.link_max_gts = leading_number(read_line(folder / "max_link_speed"));
  pci.lanes = static_cast<uint32_t>(number_in(folder / "current_link_width"));
  pci.max_lanes = static_cast<uint32_t>(number_in(folder / "max_link_width"));
  if (const auto control = device_control(read_bytes(folder / "config", kConfigBytes))) {
    pci.relaxed_ordering = control->relaxed_ordering;
    pci.max_read_request = control->max_read_request;
  }
  for (fs::path up = folder.parent_path(); is_bus_id(up.filename().string());
       up = up.parent_path()) {
    const auto redirects = acs_redirects(read_bytes(up / "config", kConfigBytes));
    if (!redirects) {
      pci.bridges_hidden = true;
    } else if (*redirects) {
      pci.redirecting_bridges.push_back(up.filename().string());
    }
  }
  return pci;
}

std::string device_node(const std::string& root, const std::string& device) {
  const std::string folder = root + "/sys/class/infiniband_verbs/";
  for (const std::string& name : names_in(folder)) {
    if (read_line(folder + name + "/ibdev") == device) return "/dev/infiniband/" + name;
  }
  return "";
}

DeviceFacts device_facts(const std::string& root, const std::string& name) {
  const std::string folder = root + "/sys/class/infiniband/" + name;
  DeviceFacts device;
  device.name = name;
  device.firmware = read_line(folder + "/fw_ver");
  device.node = device_node(root, name);
  if (!device.node.empty()) {
    const int fd = ::open((root + device.node).c_str(), O_RDWR | O_CLOEXEC);
    device.node_error = fd < 0 ? errno : 0;
    if (fd >= 0) ::close(fd);
  }
  std::error_code error;
  const fs::path real = fs::canonical(folder + "/device", error);
  device.software = static_cast<bool>(error);
  if (!error) {
    device.driver = link_name(real / "driver");
    if (is_bus_id(real.filename().string())) device.pci = pci_facts(real);
  }
  for (const std::string& port : names_in(folder + "/ports")) {
    device.ports.push_back(
        port_facts(root, folder + "/ports/" + port, static_cast<uint32_t>(leading_number(port))));
  }
  return device;
}

// Network functions of NVIDIA (Mellanox) cards without an RDMA device. Those that were given to a
// virtual machine are somebody else's.
std::vector<std::string> cards_without_device(const std::string& root) {
  std::vector<std::string> cards;
  const std::string folder = root + "/sys/bus/pci/devices/";
  for (const std::string& bus_id : names_in(folder)) {
    const uint64_t pci_class = number_in(folder + bus_id + "/class") >> 8;
    constexpr uint64_t kMellanox = 0x15b3, kEthernet = 0x0200, kInfiniBand = 0x0207;
    if (number_in(folder + bus_id + "/vendor") != kMellanox) continue;
    if (pci_class != kEthernet && pci_class != kInfiniBand) continue;
    std::error_code error;
    if (fs::exists(folder + bus_id + "/infiniband", error)) continue;
    if (link_name(folder + bus_id + "/driver") == "vfio-pci") continue;
    cards.push_back(bus_id);
  }
  return cards;
}

}  // namespace

RdmaFacts gather_rdma_files(const std::string& root) {
  RdmaFacts rdma;
  for (const std::string& name : names_in(root + "/sys/class/infiniband")) {
    rdma.devices.push_back(device_facts(root, name));
  }
  rdma.cards_without_device = cards_without_device(root);
  return rdma;
}

}  // namespace wb::cli::doctor
