// Topologies of machines that are not here (hwloc's XML in machines/), and which NICs are near.
#include "memory/near.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace wb {
namespace {

std::string machine_file(const std::string& name) {
  const char* folder = std::getenv("WB_TEST_MACHINES");
  std::ifstream file(std::string(folder == nullptr ? "" : folder) + "/" + name + ".xml");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Topology machine(const std::string& name) {
  auto topology = topology_from_xml(machine_file(name));
  EXPECT_TRUE(topology.ok()) << name << ": " << topology.status().to_string();
  return topology.ok() ? *topology : Topology();
}

std::vector<std::string> nic_names(const Topology& topology) {
  std::vector<std::string> names;
  for (const TopologyNic& nic : topology.nics) names.push_back(nic.name);
  return names;
}

// "mlx5_3:0 mlx5_2:1": names and groups, best first.
std::string ranked(const Topology& topology, const BufferPlace& place, uint32_t turn = 0,
                   std::vector<std::string> names = {}) {
  if (names.empty()) names = nic_names(topology);
  std::string text;
  for (const RankedNic& nic : rank_nics(topology, names, place, turn)) {
    text += (text.empty() ? "" : " ") + names[nic.device] + ":" + std::to_string(nic.group);
  }
  return text;
}

BufferPlace on_node(uint32_t node) { return {"", {{node, 100}}}; }
BufferPlace on_gpu(std::string bus_id) { return {std::move(bus_id), {}}; }

TEST(Topology, TwoSocketsWithEightGpus) {
  const Topology found = machine("two_sockets_eight_gpus");
  ASSERT_EQ(found.nodes.size(), 2u);
  EXPECT_EQ(found.nodes[1].index, 1u);
  EXPECT_EQ(found.nodes[1].package, 1u);
  EXPECT_EQ(found.nodes[1].bytes, 64ull << 30);
  ASSERT_EQ(found.nics.size(), 8u);
  // The management console is a display controller and no GPU.
  ASSERT_EQ(found.gpus.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(found.nics[i].name, "mlx5_" + std::to_string(i));
    EXPECT_EQ(found.nics[i].netdevs, std::vector<std::string>{"ens" + std::to_string(i) + "np0"});
    EXPECT_EQ(found.nics[i].place.nodes, std::vector<uint32_t>{i < 4 ? 0u : 1u});
    EXPECT_EQ(found.nics[i].place.bridges.size(), 4u);
    EXPECT_EQ(found.gpus[i].vendor, 0x10de);
    EXPECT_EQ(found.gpus[i].place.nodes, found.nics[i].place.nodes);
  }
  EXPECT_EQ(found.nics[0].place.bus_id, "0000:14:00.0");
  EXPECT_EQ(found.gpus[0].place.bus_id, "0000:13:00.0");
  EXPECT_NE(found.nic("mlx5_7"), nullptr);
  EXPECT_EQ(found.nic("mlx5_8"), nullptr);
  EXPECT_EQ(found.gpu("0000:14:00.0"), nullptr);
  EXPECT_EQ(found.node(2), nullptr);
}

TEST(Topology, SeveralNodesPerSocketAndTwoPortsOfOneCard) {
  const Topology found = machine("two_sockets_four_nodes_each");
  ASSERT_EQ(found.nodes.size(), 8u);
  EXPECT_EQ(found.nodes[3].package, 0u);
  EXPECT_EQ(found.nodes[4].package, 1u);
  ASSERT_EQ(nic_names(found), (std::vector<std::string>{"mlx5_0", "mlx5_1", "mlx5_2"}));
  EXPECT_EQ(found.nics[1].netdevs, std::vector<std::string>{"enp65s0f1np1"});
  EXPECT_TRUE(found.nics[2].netdevs.empty());
  EXPECT_EQ(found.nics[2].place.nodes, std::vector<uint32_t>{5});
  ASSERT_EQ(found.gpus.size(), 1u);
  EXPECT_EQ(found.gpus[0].vendor, 0x1002);
}

TEST(Topology, DevicesBelowTheWholeOfSeveralNodesAreOfUnknownPlace) {
  const Topology found = machine("virtual_two_nodes");
  EXPECT_EQ(nic_names(found), (std::vector<std::string>{"mlx5_2", "mlx5_9", "mlx5_10"}));
  for (const TopologyNic& nic : found.nics) EXPECT_TRUE(nic.place.nodes.empty());
}

TEST(Topology, AMachineWithoutRdmaHasNoNics) {
  const Topology found = machine("plain");
  EXPECT_EQ(found.nodes.size(), 1u);
  EXPECT_TRUE(found.nics.empty());
  EXPECT_TRUE(found.gpus.empty());
}

TEST(Topology, WhatIsNoTopologyIsRefused) {
  EXPECT_EQ(topology_from_xml("").status().code(), Code::kBadData);
  EXPECT_EQ(topology_from_xml("<topology>").status().code(), Code::kBadData);
  std::string cut = machine_file("plain");
  ASSERT_GT(cut.size(), 100u);
  cut.resize(cut.size() / 2);
  EXPECT_EQ(topology_from_xml(cut).status().code(), Code::kBadData);
}

TEST(Topology, ThisMachineHasANode) {
  const auto found = local_topology();
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_FALSE(found->nodes.empty());
}

TEST(Near, HostMemoryGoesToTheNicsOfItsNode) {
  const Topology topology = machine("two_sockets_eight_gpus");
  EXPECT_EQ(ranked(topology, on_node(1)),
            "mlx5_4:0 mlx5_5:0 mlx5_6:0 mlx5_7:0 mlx5_0:1 mlx5_1:1 mlx5_2:1 mlx5_3:1");
  const auto names = nic_names(topology);
  const auto nics = rank_nics(topology, names, on_node(1), 0);
  EXPECT_EQ(nics[0].nearness, Nearness::kNode);
  EXPECT_EQ(nics[7].nearness, Nearness::kRemote);
  EXPECT_EQ(nics[0].reason, "mlx5_4: same NUMA node (1) as all of the buffer");
}

TEST(Near, ProcessesTakeTurnsAmongEquallyNearNicsOnly) {
  const Topology topology = machine("two_sockets_eight_gpus");
  EXPECT_EQ(ranked(topology, on_node(0), 1),
            "mlx5_1:0 mlx5_2:0 mlx5_3:0 mlx5_0:0 mlx5_5:1 mlx5_6:1 mlx5_7:1 mlx5_4:1");
  EXPECT_EQ(ranked(topology, on_node(0), 4), ranked(topology, on_node(0), 0));
  EXPECT_EQ(ranked(topology, on_node(0), UINT32_MAX), ranked(topology, on_node(0), 3));
}

TEST(Near, GpuMemoryGoesBySwitchThenRootComplexThenNodeThenTheRest) {
  const Topology topology = machine("two_sockets_eight_gpus");
  const auto names = nic_names(topology);
  for (size_t i = 0; i < 8; ++i) {
    const auto nics = rank_nics(topology, names, on_gpu(topology.gpus[i].place.bus_id), 0);
    EXPECT_EQ(nics[0].device, i);
    EXPECT_EQ(nics[0].nearness, Nearness::kSwitch);
    EXPECT_EQ(nics[1].device, i ^ 1);
    EXPECT_EQ(nics[1].nearness, Nearness::kRootComplex);
    EXPECT_EQ(nics[2].nearness, Nearness::kNode);
    EXPECT_EQ(nics[3].nearness, Nearness::kNode);
    EXPECT_EQ(nics[3].group, 2u);
    EXPECT_EQ(nics[4].nearness, Nearness::kRemote);
    EXPECT_EQ(nics[7].group, 3u);
  }
}

TEST(Near, AGpuWithoutANicNearGoesByItsPackage) {
  const Topology topology = machine("two_sockets_four_nodes_each");
  const auto names = nic_names(topology);
  const auto nics = rank_nics(topology, names, on_gpu("0000:61:00.0"), 0);
  EXPECT_EQ(nics[0].nearness, Nearness::kPackage);
  EXPECT_EQ(nics[2].nearness, Nearness::kRemote);
  EXPECT_EQ(names[nics[2].device], "mlx5_2");
}

TEST(Near, OtherNodesOfThePackageComeBeforeOtherPackages) {
  const Topology topology = machine("two_sockets_four_nodes_each");
  EXPECT_EQ(ranked(topology, on_node(2)), "mlx5_0:0 mlx5_1:0 mlx5_2:1");
  EXPECT_EQ(ranked(topology, on_node(0)), "mlx5_0:0 mlx5_1:0 mlx5_2:1");
  EXPECT_EQ(ranked(topology, on_node(7)), "mlx5_2:0 mlx5_0:1 mlx5_1:1");
  const auto names = nic_names(topology);
  EXPECT_EQ(rank_nics(topology, names, on_node(7), 0)[0].nearness, Nearness::kPackage);
}

TEST(Near, ABufferOnSeveralNodesGoesWhereMostOfItIs) {
  const Topology topology = machine("two_sockets_eight_gpus");
  const BufferPlace mostly_one = {"", {{0, 20}, {1, 80}}};
  EXPECT_TRUE(ranked(topology, mostly_one).starts_with("mlx5_4:0"));
  const auto names = nic_names(topology);
  EXPECT_EQ(rank_nics(topology, names, mostly_one, 0)[0].reason,
            "mlx5_4: same NUMA node (1) as 80 % of the buffer");
  // Interleaved, also when not to the last page: all are equal.
  for (const uint64_t more : {0u, 1u}) {
    const BufferPlace interleaved = {"", {{0, 128}, {1, 128 + more}}};
    EXPECT_EQ(rank_nics(topology, names, interleaved, 0)[7].group, 0u);
  }
}

TEST(Near, WhatIsNotKnownComesLastAndSaysSo) {
  const Topology topology = machine("two_sockets_four_nodes_each");
  // rxe0 is no PCI device: no topology shows it.
  EXPECT_EQ(ranked(topology, on_node(5), 0, {"rxe0", "mlx5_0", "mlx5_2"}),
            "mlx5_2:0 mlx5_0:1 rxe0:2");
  const std::vector<std::string> names = {"rxe1", "rxe0"};
  const auto soft = rank_nics(topology, names, on_node(5), 0);
  EXPECT_EQ(soft[0].device, 1u);
  EXPECT_EQ(soft[0].nearness, Nearness::kUnknown);
  EXPECT_EQ(soft[0].reason, "rxe0: the topology does not show it");

  const Topology virtual_machine = machine("virtual_two_nodes");
  EXPECT_EQ(ranked(virtual_machine, on_node(0)), "mlx5_2:0 mlx5_9:0 mlx5_10:0");
  EXPECT_EQ(ranked(topology, BufferPlace()), "mlx5_0:0 mlx5_1:0 mlx5_2:0");
  EXPECT_EQ(ranked(topology, on_gpu("0000:ff:00.0")), "mlx5_0:0 mlx5_1:0 mlx5_2:0");
  EXPECT_EQ(ranked(Topology(), on_node(0), 0, {"b", "a"}), "a:0 b:0");
  EXPECT_TRUE(rank_nics(topology, {}, on_node(0), 3).empty());
}

TEST(Near, EveryDeviceIsRankedOnceWhateverTheMachine) {
  for (const char* name :
       {"two_sockets_eight_gpus", "two_sockets_four_nodes_each", "virtual_two_nodes", "plain"}) {
    const Topology topology = machine(name);
    auto names = nic_names(topology);
    names.push_back("rxe0");
    for (uint32_t turn = 0; turn < 10; ++turn) {
      std::set<size_t> seen;
      uint32_t group = 0;
      for (const RankedNic& nic : rank_nics(topology, names, on_node(turn % 3), turn)) {
        EXPECT_TRUE(seen.insert(nic.device).second);
        EXPECT_GE(nic.group, group);
        group = nic.group;
      }
      EXPECT_EQ(seen.size(), names.size());
    }
  }
}

}  // namespace
}  // namespace wb
