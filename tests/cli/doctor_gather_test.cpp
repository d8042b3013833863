// What the doctor reads from /sys and from devices: a made-up tree, registers, fake NICs.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "cli/doctor/check.h"
#include "cli/doctor/gather.h"
#include "cli/doctor/pci_config.h"
#include "cli/doctor/sysfs.h"
#include "transport/fake/fabric.h"

namespace wb::cli::doctor {
namespace {

namespace fs = std::filesystem;

// Configuration space with the capabilities at their places.
class Config {
 public:
  explicit Config(size_t bytes) : bytes_(bytes, '\0') {}
  Config& put(size_t at, uint32_t value, size_t width) {
    for (size_t i = 0; i < width; ++i) bytes_[at + i] = static_cast<char>(value >> (8 * i));
    return *this;
  }
  // Power management at 0x40, then PCI Express at 0x60 with this Device Control.
  Config& express(uint32_t device_control) {
    return put(0x06, 0x10, 2)
        .put(0x34, 0x40, 1)
        .put(0x40, 0x01, 1)
        .put(0x41, 0x60, 1)
        .put(0x60, 0x10, 1)
        .put(0x68, device_control, 2);
  }
  // Advanced error reporting at 0x100, then ACS at 0x148 with this control.
  Config& acs(uint32_t control) {
    return put(0x100, 0x14820001, 4).put(0x148, 0x0001000d, 4).put(0x148 + 6, control, 2);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

TEST(PciConfig, ReadsDeviceControl) {
  const auto on = device_control(Config(256).express(0x2910).bytes());
  ASSERT_TRUE(on.has_value());
  EXPECT_TRUE(on->relaxed_ordering);
  EXPECT_EQ(on->max_read_request, 512u);
  const auto off = device_control(Config(256).express(0x5900).bytes());
  EXPECT_FALSE(off->relaxed_ordering);
  EXPECT_EQ(off->max_read_request, 4096u);
}

TEST(PciConfig, WhatIsNotThereIsNotGuessed) {
  EXPECT_FALSE(device_control("").has_value());
  EXPECT_FALSE(device_control(Config(256).bytes()).has_value());  // no list at all
  // Others than root see 64 bytes.
  EXPECT_FALSE(device_control(Config(256).express(0x10).bytes().substr(0, 64)).has_value());
  EXPECT_FALSE(acs_redirects(Config(256).express(0x10).bytes()).has_value());
  EXPECT_EQ(acs_redirects(Config(4096).bytes()), false);
}

TEST(PciConfig, AListThatIsARingEnds) {
  EXPECT_FALSE(
      device_control(Config(256).put(0x06, 0x10, 2).put(0x34, 0x40, 1).put(0x41, 0x40, 1).bytes())
          .has_value());
  EXPECT_EQ(acs_redirects(Config(4096).put(0x100, 0x10010001, 4).bytes()), false);
}

TEST(PciConfig, ReadsAcs) {
  EXPECT_EQ(acs_redirects(Config(4096).acs(0x0001).bytes()), false);  // source validation only
  EXPECT_EQ(acs_redirects(Config(4096).acs(0x0004).bytes()), true);
  EXPECT_EQ(acs_redirects(Config(4096).acs(0x001d).bytes()), true);
}

TEST(PciConfig, AnyBytesAreSafe) {
  uint32_t state = 1;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes((state >> 8) % 4097, '\0');
    for (char& byte : bytes) {
      state = state * 1664525 + 1013904223;
      byte = static_cast<char>(state >> 24);
    }
    (void)device_control(bytes);
    (void)acs_redirects(bytes);
  }
}

TEST(Sysfs, BusIds) {
  EXPECT_TRUE(is_bus_id("0000:1b:00.0"));
  EXPECT_TRUE(is_bus_id("10000:e1:1f.7"));
  for (const char* other : {"", "pci0000:00", "0000:1b:00", "0000:1b:00-0", "mlx5_0", ":1b:00.0",
                            "0000:1g:00.0", "000:1b:00.0"}) {
    EXPECT_FALSE(is_bus_id(other)) << other;
  }
}

// A tree of /sys with one ConnectX below a switch, one soft-RoCE device, and one card that no
// driver has taken.
class Tree : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/wb-doctor-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
    const std::string bridge = "/sys/devices/pci0000:15/0000:15:01.0";
    const std::string upstream = bridge + "/0000:16:00.0";
    const std::string card = upstream + "/0000:1b:00.0";
    put(bridge + "/config", Config(4096).acs(0).bytes());
    put(upstream + "/config", Config(4096).acs(0x1d).bytes());
    put(card + "/config", Config(4096).express(0x2910).bytes());
    put(card + "/vendor", "0x15b3\n");
    put(card + "/class", "0x020700\n");
    put(card + "/current_link_speed", "16.0 GT/s PCIe\n");
    put(card + "/max_link_speed", "32.0 GT/s PCIe\n");
    put(card + "/current_link_width", "8\n");
    put(card + "/max_link_width", "16\n");
    put(card + "/iommu_group/type", "DMA-FQ\n");
    const std::string ib = card + "/infiniband/mlx5_0";
    put(ib + "/fw_ver", "28.39.1002\n");
    port(ib + "/ports/1", "4: ACTIVE", "5: LinkUp", "Ethernet", "400 Gb/sec (4X NDR)");
    gid(ib + "/ports/1", 0, "fe80:0000:0000:0000:5aa2:e1ff:fe00:0001", "IB/RoCE v1", "ens1np0");
    gid(ib + "/ports/1", 1, "fe80:0000:0000:0000:5aa2:e1ff:fe00:0001", "RoCE v2", "ens1np0");
    gid(ib + "/ports/1", 3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "ens1np0");
    gid(ib + "/ports/1", 4, "0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2", "ens1np0");
    put(ib + "/ports/1/hw_counters/out_of_sequence", "5\n");
    put(ib + "/ports/1/hw_counters/local_ack_timeout_err", "2\n");
    link(card, ib + "/device");
    link("/sys/bus/pci/drivers/mlx5_core", card + "/driver");
    link(ib, "/sys/class/infiniband/mlx5_0");
    put("/sys/class/net/ens1np0/mtu", "9000\n");
    put("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
    put("/sys/class/infiniband_verbs/abi_version", "6\n");
    put("/dev/infiniband/uverbs0", "");

    const std::string soft = "/sys/devices/virtual/infiniband/rxe0";
    port(soft + "/ports/1", "1: DOWN", "3: Disabled", "InfiniBand", "2.5 Gb/sec (1X SDR)");
    put(soft + "/parent", "eth0\n");
    link(soft, "/sys/class/infiniband/rxe0");
    put("/sys/class/infiniband_verbs/uverbs1/ibdev", "rxe0\n");

    put("/sys/bus/pci/devices/0000:1b:00.0/vendor", "0x15b3\n");
    put("/sys/bus/pci/devices/0000:1b:00.0/class", "0x020700\n");
    fs::create_directories(root_ + "/sys/bus/pci/devices/0000:1b:00.0/infiniband");
    for (const char* lost : {"0000:41:00.0", "0000:42:00.0"}) {
      const std::string folder = std::string("/sys/bus/pci/devices/") + lost;
      put(folder + "/vendor", "0x15b3\n");
      put(folder + "/class", "0x020000\n");
    }
    link("/sys/bus/pci/drivers/vfio-pci", "/sys/bus/pci/devices/0000:42:00.0/driver");
    put("/sys/bus/pci/devices/0000:00:1f.0/vendor", "0x15b3\n");
    put("/sys/bus/pci/devices/0000:00:1f.0/class", "0x060400\n");  // a bridge of the same maker
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  void link(const std::string& target, const std::string& path) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    fs::create_directories(root_ + target);
    fs::create_symlink(root_ + target, root_ + path);
  }
  void port(const std::string& folder, const std::string& state, const std::string& physical,
            const std::string& layer, const std::string& rate) {
    put(folder + "/state", state + "\n");
    put(folder + "/phys_state", physical + "\n");
    put(folder + "/link_layer", layer + "\n");
    put(folder + "/rate", rate + "\n");
    put(folder + "/sm_lid", "0x1a\n");
  }
  void gid(const std::string& folder, int index, const std::string& text, const std::string& type,
           const std::string& netdev) {
    const std::string number = std::to_string(index);
    put(folder + "/gids/" + number, text + "\n");
    put(folder + "/gid_attrs/types/" + number, type + "\n");
    put(folder + "/gid_attrs/ndevs/" + number, netdev + "\n");
  }

  std::string root_;
};

TEST_F(Tree, AllThatIsToldIsRead) {
  const RdmaFacts rdma = gather_rdma_files(root_);
  ASSERT_EQ(rdma.devices.size(), 2u);
  const DeviceFacts& card = rdma.devices[0];
  EXPECT_EQ(card.name, "mlx5_0");
  EXPECT_EQ(card.driver, "mlx5_core");
  EXPECT_EQ(card.firmware, "28.39.1002");
  EXPECT_FALSE(card.software);
  EXPECT_EQ(card.node, "/dev/infiniband/uverbs0");
  EXPECT_EQ(card.node_error, 0);
  ASSERT_TRUE(card.pci.has_value());
  EXPECT_EQ(card.pci->bus_id, "0000:1b:00.0");
  EXPECT_EQ(card.pci->iommu, "DMA-FQ");
  EXPECT_EQ(card.pci->link_gts, 16);
  EXPECT_EQ(card.pci->link_max_gts, 32);
  EXPECT_EQ(card.pci->lanes, 8u);
  EXPECT_EQ(card.pci->max_lanes, 16u);
  EXPECT_EQ(card.pci->relaxed_ordering, true);
  EXPECT_EQ(card.pci->max_read_request, 512u);
  EXPECT_EQ(card.pci->redirecting_bridges, std::vector<std::string>{"0000:16:00.0"});
  EXPECT_FALSE(card.pci->bridges_hidden);
  ASSERT_EQ(card.ports.size(), 1u);
  const PortFacts& port = card.ports[0];
  EXPECT_EQ(port.state, "ACTIVE");
  EXPECT_EQ(port.physical, "LinkUp");
  EXPECT_FALSE(port.infiniband);
  EXPECT_EQ(port.gbps, 400);
  EXPECT_EQ(port.subnet_manager, 26u);
  EXPECT_EQ(port.netdev, "ens1np0");
  EXPECT_EQ(port.netdev_mtu, 9000u);
  EXPECT_EQ(port.lost_packets, 7u);
  ASSERT_EQ(port.gids.size(), 3u);  // the empty one is none
  EXPECT_FALSE(port.gids[0].roce2);
  EXPECT_TRUE(port.gids[1].roce2);
  EXPECT_TRUE(port.gids[1].link_local);
  EXPECT_EQ(port.gids[2].address, "10.0.0.1");
  EXPECT_EQ(port.gids[2].index, 3u);
  EXPECT_FALSE(port.gids[2].link_local);
}

TEST_F(Tree, ASoftwareDeviceWithoutItsFile) {
  const RdmaFacts rdma = gather_rdma_files(root_);
  const DeviceFacts& soft = rdma.devices[1];
  EXPECT_EQ(soft.name, "rxe0");
  EXPECT_TRUE(soft.software);
  EXPECT_FALSE(soft.pci.has_value());
  EXPECT_EQ(soft.node, "/dev/infiniband/uverbs1");
  EXPECT_EQ(soft.node_error, ENOENT);
  EXPECT_TRUE(soft.ports[0].infiniband);
  EXPECT_EQ(soft.ports[0].state, "DOWN");
}

TEST_F(Tree, CardsWithoutADeviceAreNamedUnlessSomebodyElseHasThem) {
  EXPECT_EQ(gather_rdma_files(root_).cards_without_device,
            std::vector<std::string>{"0000:41:00.0"});
}

TEST_F(Tree, BridgesThatOnlyRootSeesAreNotCalledFree) {
  const std::string config = root_ + "/sys/devices/pci0000:15/0000:15:01.0/config";
  fs::resize_file(config, 64);
  const RdmaFacts rdma = gather_rdma_files(root_);
  EXPECT_TRUE(rdma.devices[0].pci->bridges_hidden);
}

TEST_F(Tree, SmallFiles) {
  put("/proc/sys/kernel/yama/ptrace_scope", "2\n");
  EXPECT_EQ(gather_ptrace_scope(root_), 2);
  EXPECT_EQ(gather_ptrace_scope(root_ + "/nowhere"), std::nullopt);
  EXPECT_FALSE(gather_peermem(root_));
  put("/proc/modules", "nvidia 1 2 - Live\nnvidia_peermem 16384 0 - Live 0x0\n");
  EXPECT_TRUE(gather_peermem(root_));
  MachineFacts facts;
  gather_kernel("5.15.0-91-generic", &facts);
  EXPECT_EQ(facts.kernel_major, 5u);
  EXPECT_EQ(facts.kernel_minor, 15u);
  gather_kernel("custom", &facts);
  EXPECT_EQ(facts.kernel, "custom");
}

TEST(DoctorGather, AMachineWithoutAnyOfItIsNoError) {
  const RdmaFacts rdma = gather_rdma_files("/nowhere");
  EXPECT_TRUE(rdma.devices.empty());
  EXPECT_TRUE(rdma.cards_without_device.empty());
}

TEST(DoctorGather, CapsComeFromTheDevices) {
  fake::Fabric fabric({});
  const size_t host = fabric.add_host({fake::connectx(7, "mlx5_0", "10.0.0.1")});
  RdmaFacts rdma;
  rdma.devices.resize(3);
  rdma.devices[0].name = "mlx5_0";
  rdma.devices[0].node = "/dev/infiniband/uverbs0";
  rdma.devices[0].ports.resize(1);
  rdma.devices[1].name = "efa_0";  // the library does not list it
  rdma.devices[1].node = "/dev/infiniband/uverbs1";
  rdma.devices[2].name = "mlx5_0";
  rdma.devices[2].node = "/dev/infiniband/uverbs0";
  rdma.devices[2].node_error = EACCES;
  add_device_caps(*fabric.verbs(host), &rdma);
  EXPECT_TRUE(rdma.devices[0].in_library);
  ASSERT_TRUE(rdma.devices[0].caps.has_value());
  EXPECT_EQ(rdma.devices[0].caps->reads_as_reader, 16u);
  EXPECT_EQ(rdma.devices[0].caps->reads_as_source, 16u);
  EXPECT_EQ(rdma.devices[0].ports[0].active_mtu, 4096u);
  EXPECT_FALSE(rdma.devices[1].in_library);
  EXPECT_FALSE(rdma.devices[2].caps.has_value());
  EXPECT_EQ(fabric.live(), fake::Live{});
}

TEST(DoctorGather, AMissingLibraryIsSaidInOneSentence) {
  RdmaFacts rdma;
  gather_verbs("libno-such-verbs.so.1", &rdma);
  EXPECT_NE(rdma.library_error.find("libno-such-verbs.so.1"), std::string::npos);
}

TEST(DoctorGather, ThisMachine) {
  const MachineFacts facts = gather();
  EXPECT_GE(facts.kernel_major, 4u);
  EXPECT_GT(facts.memory.available, 0u);
  EXPECT_GT(facts.limits.files, 0u);
  EXPECT_FALSE(check_all(facts, {}).empty());
}

}  // namespace
}  // namespace wb::cli::doctor
