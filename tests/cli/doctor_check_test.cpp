// The doctor's judgement over made-up machines: each trouble is found, with its cure, and a healthy
// machine has none.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/doctor/check.h"
#include "cli/doctor/report.h"

namespace wb::cli::doctor {
namespace {

constexpr uint16_t kNvidia = 0x10de;

DeviceFacts connectx(const std::string& name) {
  DeviceFacts device;
  device.name = name;
  device.driver = "mlx5_core";
  device.firmware = "28.39.1002";
  device.node = "/dev/infiniband/uverbs0";
  device.caps = DeviceCaps{16, 16, 1u << 24, UINT64_MAX, 30};
  PciFacts pci;
  pci.bus_id = "0000:1b:00.0";
  pci.iommu = "identity";
  pci.link_gts = pci.link_max_gts = 32;
  pci.lanes = pci.max_lanes = 16;
  pci.relaxed_ordering = true;
  pci.max_read_request = 512;
  device.pci = pci;
  PortFacts port;
  port.state = "ACTIVE";
  port.physical = "LinkUp";
  port.gbps = 400;
  port.active_mtu = 4096;
  port.netdev = "ens1np0";
  port.netdev_mtu = 9000;
  port.gids = {{0, "fe80::1", false, true, "ens1np0"},
               {1, "fe80::1", true, true, "ens1np0"},
               {3, "10.0.0.1", true, false, "ens1np0"}};
  device.ports = {port};
  return device;
}

// Two NICs, one GPU, nothing wrong.
MachineFacts healthy() {
  MachineFacts facts;
  facts.kernel = "6.8.0";
  facts.kernel_major = 6;
  facts.kernel_minor = 8;
  facts.root = true;
  facts.rdma.devices = {connectx("mlx5_0"), connectx("mlx5_1")};
  facts.limits.files = 1048576;
  facts.memory.available = uint64_t{1} << 40;
  facts.memory.huge_page = 2u << 20;
  facts.memory.huge_total = facts.memory.huge_free = 1024;
  facts.memory.topology.nodes = {{0, 0, 1}, {1, 1, 1}};
  facts.memory.topology.nics = {{"mlx5_0", {"ens1np0"}, {"0000:1b:00.0", {0}, {1, 2}}},
                                {"mlx5_1", {"ens2np0"}, {"0000:9b:00.0", {1}, {3, 4}}}};
  facts.memory.topology.gpus = {{{"0000:1c:00.0", {0}, {1, 2}}, kNvidia}};
  facts.local.ptrace_scope = 1;
  facts.ucx.version = "1.17.0";
  facts.ucx.major = 1;
  facts.ucx.minor = 17;
  facts.ucx.transports = {"dc_mlx5/mlx5_0:1", "rc_mlx5/mlx5_0:1", "tcp/eth0"};
  facts.cuda.driver = "12.4";
  facts.cuda.gpus = {{"NVIDIA H100", "0000:1c:00.0", true}};
  return facts;
}

// A plain computer: no RDMA, no GPU.
MachineFacts plain() {
  MachineFacts facts = healthy();
  facts.rdma.devices.clear();
  facts.memory.topology.nics.clear();
  facts.memory.topology.gpus.clear();
  facts.ucx.transports = {"tcp/eth0", "tcp/lo"};
  facts.cuda = {};
  facts.cuda.error = "there is no CUDA driver (libcuda.so.1)";
  return facts;
}

std::string listed(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += std::string(verdict_name(finding.verdict)) + " | " + finding.subject + " | " +
            finding.text + " | " + finding.cure + "\n";
  }
  return text;
}

const Needs kNothing;

struct Trouble {
  std::string name;
  std::function<void(MachineFacts*)> make;
  std::string subject;
  Verdict verdict = Verdict::kProblem;
  std::string text;
  std::string cure;
  Needs needs = {};
};

std::vector<DeviceFacts>& devices(MachineFacts* facts) { return facts->rdma.devices; }
PortFacts& port(MachineFacts* facts) { return facts->rdma.devices[0].ports[0]; }
PciFacts& pci(MachineFacts* facts) { return *facts->rdma.devices[0].pci; }
void all_ports_down(MachineFacts* facts) {
  for (DeviceFacts& device : facts->rdma.devices) device.ports[0].state = "DOWN";
}

const std::vector<Trouble>& troubles() {
  constexpr auto kNote = Verdict::kNote;
  constexpr auto kProblem = Verdict::kProblem;
  static const std::vector<Trouble> kTroubles = {
      {"a card without driver", [](auto* f) { f->rdma.cards_without_device = {"0000:41:00.0"}; },
       "rdma", kProblem, "0000:41:00.0", "modprobe mlx5_ib"},
      {"no device", [](auto* f) { devices(f).clear(); }, "rdma", kNote, "no RDMA device",
       "RDMA NIC"},
      {"no device, but needed",
       [](auto* f) { devices(f).clear(); },
       "rdma",
       kProblem,
       "no RDMA device",
       "RDMA NIC",
       {.verbs = true}},
      {"no library", [](auto* f) { f->rdma.library_error = "libibverbs is not usable here"; },
       "rdma", kProblem, "libibverbs", "libibverbs1"},
      {"no uverbs file", [](auto* f) { devices(f)[0].node.clear(); }, "rdma mlx5_0", kProblem,
       "uverbs", "modprobe ib_uverbs"},
      {"file that a container hides", [](auto* f) { devices(f)[0].node_error = ENOENT; },
       "rdma mlx5_0", kProblem, "uverbs0", "--device /dev/infiniband"},
      {"file without permission", [](auto* f) { devices(f)[0].node_error = EACCES; }, "rdma mlx5_0",
       kProblem, "Permission denied", "let this user"},
      {"no provider", [](auto* f) { devices(f)[0].in_library = false; }, "rdma mlx5_0", kProblem,
       "provider", "ibverbs-providers"},
      {"device that does not open",
       [](auto* f) { devices(f)[0].open_error = "Cannot allocate memory"; }, "rdma mlx5_0",
       kProblem, "Cannot allocate memory", "dmesg"},
      {"device without READ", [](auto* f) { devices(f)[0].caps->reads_as_source = 0; },
       "rdma mlx5_0", kProblem, "cannot do RDMA READ", "--transport ucx"},
      {"few reads in flight", [](auto* f) { devices(f)[0].caps->reads_as_reader = 4; },
       "rdma mlx5_0", kNote, "4 reads in flight", "firmware"},
      {"software device", [](auto* f) { devices(f)[0].software = true; }, "rdma mlx5_0", kNote,
       "software RDMA", "RDMA NIC"},
      {"port down",
       [](auto* f) {
         port(f).state = "DOWN";
         port(f).physical = "Polling";
       },
       "port mlx5_0:1", kNote, "DOWN (Polling)", "cable"},
      {"port switched off",
       [](auto* f) {
         port(f).state = "DOWN";
         port(f).physical = "Disabled";
       },
       "port mlx5_0:1", kNote, "Disabled", "ip link set ens1np0 up"},
      {"all ports down, and needed",
       all_ports_down,
       "port mlx5_1:1",
       kProblem,
       "DOWN",
       "cable",
       {.verbs = true}},
      {"nothing usable", all_ports_down, "rdma", kNote, "no port", "lines above"},
      {"nothing usable, but needed",
       all_ports_down,
       "rdma",
       kProblem,
       "no port",
       "lines above",
       {.verbs = true}},
      {"no subnet manager",
       [](auto* f) {
         port(f).infiniband = true;
         port(f).state = "INIT";
       },
       "port mlx5_0:1", kNote, "no subnet manager", "opensm"},
      {"no RoCE v2 address", [](auto* f) { port(f).gids.resize(1); }, "port mlx5_0:1", kProblem,
       "no RoCE v2 address", "give ens1np0 an IP address"},
      {"link-local address only", [](auto* f) { port(f).gids.resize(2); }, "port mlx5_0:1", kNote,
       "link-local", "give ens1np0 an IP address"},
      {"small packets",
       [](auto* f) {
         port(f).active_mtu = 1024;
         port(f).netdev_mtu = 1500;
       },
       "port mlx5_0:1", kNote, "1024", "ip link set ens1np0 mtu 9000"},
      {"small packets in spite of jumbo frames", [](auto* f) { port(f).active_mtu = 1024; },
       "port mlx5_0:1", kNote, "9000", "down and up"},
      {"small packets on InfiniBand",
       [](auto* f) {
         port(f).infiniband = true;
         port(f).active_mtu = 2048;
       },
       "port mlx5_0:1", kNote, "2048", "partitions.conf"},
      {"lost packets", [](auto* f) { port(f).lost_packets = 12; }, "port mlx5_0:1", kNote,
       "12 packets", "PFC"},
      {"narrow slot", [](auto* f) { pci(f).lanes = 8; }, "pci mlx5_0", kNote, "x16", "slot"},
      {"slow slot", [](auto* f) { pci(f).link_gts = 16; }, "pci mlx5_0", kNote, "32 GT/s", "slot"},
      {"slot slower than the port", [](auto* f) { pci(f).link_gts = pci(f).link_max_gts = 16; },
       "pci mlx5_0", kNote, "the port 400", "lanes"},
      {"no relaxed ordering", [](auto* f) { pci(f).relaxed_ordering = false; }, "pci mlx5_0", kNote,
       "relaxed ordering is off", "BIOS"},
      {"translating IOMMU", [](auto* f) { pci(f).iommu = "DMA-FQ"; }, "pci mlx5_0", kNote, "DMA-FQ",
       "iommu=pt"},
      {"ACS", [](auto* f) { pci(f).redirecting_bridges = {"0000:1a:00.0"}; }, "pci mlx5_0", kNote,
       "0000:1a:00.0", "setpci"},
      {"ACS unknown", [](auto* f) { pci(f).bridges_hidden = true; }, "pci mlx5_0", kNote,
       "root only", "as root"},
      {"tiny memlock", [](auto* f) { f->limits.memlock = 8u << 20; }, "limits", kProblem, "8.4 MB",
       "ulimit -l unlimited"},
      {"some memlock", [](auto* f) { f->limits.memlock = uint64_t{16} << 30; }, "limits", kNote,
       "17.18 GB", "LimitMEMLOCK"},
      {"few files", [](auto* f) { f->limits.files = 256; }, "limits", kNote, "256", "ulimit -n"},
      {"no huge pages", [](auto* f) { f->memory.huge_total = 0; }, "memory", kNote, "no huge pages",
       "vm.nr_hugepages"},
      {"huge pages taken", [](auto* f) { f->memory.huge_free = 0; }, "memory", kNote, "all 1024",
       "free some"},
      {"no hwloc", [](auto* f) { f->memory.topology_error = "hwloc is not usable here"; }, "memory",
       kNote, "hwloc", "libhwloc15"},
      {"NIC of unknown place", [](auto* f) { f->memory.topology.nics[0].place.nodes.clear(); },
       "memory mlx5_0", kNote, "NUMA node", "hypervisor"},
      {"NIC far from a GPU",
       [](auto* f) {
         f->memory.topology.gpus[0].place = {"0000:1c:00.0", {0}, {7}};
       },
       "near gpu 0000:1c:00.0", kNote, "through the processor", "near a NIC"},
      {"NIC far from a node", [](auto* f) { f->rdma.devices.pop_back(); }, "near node 1", kNote,
       "mlx5_0", "near a NIC"},
      {"no sealed memory",
       [](auto* f) {
         f->local.memfd_error = EINVAL;
         f->kernel_major = 4;
       },
       "local", kNote, "Invalid argument", "5.1"},
      {"no sealed memory, but needed",
       [](auto* f) { f->local.memfd_error = ENOSYS; },
       "local",
       kProblem,
       "sealed",
       "memfd_create",
       {.local = true}},
      {"no process_vm_readv", [](auto* f) { f->local.read_error = ENOSYS; }, "local", kNote,
       "process_vm_readv", "--memory shared"},
      {"forbidden process_vm_readv", [](auto* f) { f->local.read_error = EPERM; }, "local", kNote,
       "not permitted", "SYS_PTRACE"},
      {"ptrace scope 2", [](auto* f) { f->local.ptrace_scope = 2; }, "local", kNote,
       "ptrace_scope is 2", "ptrace_scope=1"},
      {"ptrace scope 3", [](auto* f) { f->local.ptrace_scope = 3; }, "local", kNote,
       "ptrace_scope is 3", "boot"},
      {"no UCX", [](auto* f) { f->ucx.error = "there is no UCX (libucp.so.0)"; }, "ucx", kNote,
       "no UCX", "libucx0"},
      {"no UCX, but needed",
       [](auto* f) { f->ucx.error = "there is no UCX (libucp.so.0)"; },
       "ucx",
       kProblem,
       "no UCX",
       "libucx0",
       {.ucx = true}},
      {"old UCX",
       [](auto* f) {
         f->ucx.minor = 9;
         f->ucx.version = "1.9.0";
       },
       "ucx", kProblem, "1.9.0", "1.10"},
      {"UCX without RDMA", [](auto* f) { f->ucx.transports = {"tcp/eth0"}; }, "ucx", kProblem,
       "no RDMA although", "libuct_ib.so"},
      {"UCX narrowed", [](auto* f) { f->ucx.tls = "tcp"; }, "ucx", kNote, "UCX_TLS=tcp", "unset"},
      {"UCX without a network",
       [](auto* f) {
         all_ports_down(f);
         f->ucx.transports.clear();
       },
       "ucx",
       kProblem,
       "nothing",
       "modules",
       {.ucx = true}},
      {"UCX over TCP",
       [](auto* f) {
         all_ports_down(f);
         f->ucx.transports = {"tcp/eth0"};
       },
       "ucx", kNote, "TCP", "RDMA NIC"},
      {"GPU without driver",
       [](auto* f) {
         f->cuda = {};
         f->cuda.error = "there is no CUDA driver";
       },
       "gpu", kProblem, "no CUDA driver", "container toolkit"},
      {"driver that shows no GPU", [](auto* f) { f->cuda.gpus.clear(); }, "gpu", kProblem,
       "shows no GPU", "--gpus all"},
      {"no GPU, but needed",
       [](auto* f) { *f = plain(); },
       "gpu",
       kProblem,
       "no CUDA driver",
       "NVIDIA GPU",
       {.gpu = true}},
      {"GPU memory out of reach", [](auto* f) { f->cuda.gpus[0].dmabuf = false; }, "gpu", kNote,
       "NICs cannot reach", "nvidia_peermem"},
      {"old kernel for dmabuf",
       [](auto* f) {
         f->kernel_major = 5;
         f->kernel_minor = 4;
       },
       "gpu", kNote, "NICs cannot reach", "5.12"},
  };
  return kTroubles;
}

TEST(DoctorCheck, AHealthyMachineHasNothingToCure) {
  const Findings findings = check_all(healthy(), {true, true, true, true});
  EXPECT_EQ(worst(findings), Verdict::kOk) << listed(findings);
  EXPECT_GE(findings.size(), 10u);
  EXPECT_TRUE(usable_rdma(healthy()));
}

TEST(DoctorCheck, EachTroubleIsFoundWithItsCure) {
  for (const Trouble& trouble : troubles()) {
    MachineFacts facts = healthy();
    trouble.make(&facts);
    const Findings findings = check_all(facts, trouble.needs);
    bool found = false;
    for (const Finding& finding : findings) {
      found = found || (finding.subject == trouble.subject && finding.verdict == trouble.verdict &&
                        finding.text.find(trouble.text) != std::string::npos &&
                        finding.cure.find(trouble.cure) != std::string::npos);
    }
    EXPECT_TRUE(found) << trouble.name << "\n" << listed(findings);
    if (trouble.verdict == Verdict::kNote) {
      EXPECT_EQ(worst(findings), Verdict::kNote) << trouble.name << "\n" << listed(findings);
    }
  }
}

TEST(DoctorCheck, WhateverIsNotOkHasACureOfOneLine) {
  for (const Trouble& trouble : troubles()) {
    MachineFacts facts = healthy();
    trouble.make(&facts);
    for (const Finding& finding : check_all(facts, trouble.needs)) {
      EXPECT_FALSE(finding.text.empty());
      EXPECT_EQ(finding.cure.empty(), finding.verdict == Verdict::kOk)
          << trouble.name << ": " << finding.text;
      EXPECT_EQ(finding.cure.find('\n'), std::string::npos) << trouble.name;
    }
  }
}

TEST(DoctorCheck, TellsWhichNicIsNearestToWhat) {
  const auto text_of = [](const std::string& subject) {
    for (const Finding& finding : check_near(healthy())) {
      if (finding.subject == subject) return finding.text;
    }
    return std::string("nothing");
  };
  EXPECT_EQ(text_of("near gpu 0000:1c:00.0"), "nearest RDMA: mlx5_0 (same PCIe switch)");
  EXPECT_EQ(text_of("near node 1"), "nearest RDMA: mlx5_1 (same NUMA node)");
  EXPECT_TRUE(check_near(plain()).empty());
}

TEST(DoctorCheck, APlainComputerHasNotesOnly) {
  EXPECT_EQ(worst(check_all(plain(), kNothing)), Verdict::kNote);
  EXPECT_EQ(worst(check_all(plain(), {.local = true, .ucx = true})), Verdict::kNote);
  MachineFacts limited = plain();
  limited.limits.memlock = 64u << 10;  // the usual limit; harmless without RDMA
  EXPECT_EQ(worst(check_all(limited, kNothing)), Verdict::kNote);
  EXPECT_FALSE(usable_rdma(plain()));
}

TEST(DoctorCheck, PrivilegesLiftLimits) {
  MachineFacts facts = healthy();
  facts.limits.memlock = 64u << 10;
  facts.limits.may_lock = true;
  facts.local.ptrace_scope = 2;
  facts.limits.may_trace = true;
  facts.cuda.gpus[0].dmabuf = false;
  facts.cuda.peermem = true;
  EXPECT_EQ(worst(check_all(facts, kNothing)), Verdict::kOk) << listed(check_all(facts, kNothing));
}

TEST(DoctorCheck, NoGpuNoAcs) {
  MachineFacts facts = healthy();
  pci(&facts).redirecting_bridges = {"0000:1a:00.0"};
  facts.memory.topology.gpus.clear();
  for (const Finding& finding : check_pci(facts)) {
    EXPECT_EQ(finding.text.find("ACS"), std::string::npos);
  }
}

TEST(DoctorCheck, OnePortOfTwoIsEnough) {
  MachineFacts facts = healthy();
  port(&facts).state = "DOWN";
  EXPECT_TRUE(usable_rdma(facts));
  EXPECT_EQ(worst(check_all(facts, {.verbs = true})), Verdict::kNote);
}

TEST(DoctorReport, TextCountsAndJsonKeepsAll) {
  MachineFacts facts = healthy();
  port(&facts).active_mtu = 1024;
  devices(&facts)[1].node_error = EACCES;
  devices(&facts)[1].firmware = "\x1b[31m";  // of the device: not to be trusted with a terminal
  const Findings findings = check_all(facts, kNothing);
  const std::string text = report_text(findings);
  EXPECT_NE(text.find("PROBLEM  rdma mlx5_1"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("1 problem, 1 note")) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  const nlohmann::json json = report_json(facts, findings);
  EXPECT_EQ(json["verdict"], "problem");
  EXPECT_EQ(json["findings"].size(), findings.size());
  EXPECT_EQ(json["devices"][0]["name"], "mlx5_0");
  EXPECT_EQ(json["devices"][0]["numa_nodes"][0], 0);
  EXPECT_EQ(json["devices"][0]["ports"][0]["gids"][2]["address"], "10.0.0.1");
  EXPECT_EQ(json["devices"][0]["pci"]["relaxed_ordering"], true);
  EXPECT_EQ(json["gpus"][0]["dmabuf"], true);
}

}  // namespace
}  // namespace wb::cli::doctor
