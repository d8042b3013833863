#!/usr/bin/env python3
"""Writes the machines of near_test in hwloc's XML, beside this file. Run it again after changing them:
  tests/memory/machines/make.py"""
import pathlib
import xml.etree.ElementTree as ElementTree

OS_NETWORK, OS_OPENFABRICS = "2", "3"
MELLANOX, NVIDIA, AMD, ASPEED = "15b3", "10de", "1002", "1a03"


class Machine:
    """A tree of packages with NUMA nodes; each node has one processor, and root complexes."""

    def __init__(self, packages: int, nodes_per_package: int) -> None:
        self.serial = 0
        count = packages * nodes_per_package
        everything = range(count)
        self.root = self.add(None, "Machine", everything, os_index="0")
        self.nodes = []
        for package in range(packages):
            own = range(package * nodes_per_package, (package + 1) * nodes_per_package)
            place = self.add(self.root, "Package", own, os_index=str(package))
            for node in own:
                group = place
                if nodes_per_package > 1:
                    group = self.add(place, "Group", [node], kind="1001", subkind="0")
                self.add(group, "NUMANode", [node], os_index=str(node), local_memory=str(64 << 30))
                core = self.add(group, "Core", [node], os_index=str(node))
                self.add(core, "PU", [node], os_index=str(node))
                self.nodes.append(group)

    def add(self, parent, what: str, nodes, **attributes: str):
        self.serial += 1
        element = ElementTree.Element("object", {"type": what}) if parent is None else \
            ElementTree.SubElement(parent, "object", {"type": what})
        for key, value in attributes.items():
            element.set(key, value)
        element.set("gp_index", str(self.serial))
        if nodes is not None:
            mask = hex(sum(1 << node for node in nodes))
            for name in ("cpuset", "complete_cpuset", "nodeset", "complete_nodeset"):
                element.set(name, mask)
            if parent is None:
                element.set("allowed_cpuset", mask)
                element.set("allowed_nodeset", mask)
        return element

    def host_bridge(self, parent, first: int, last: int):
        return self.add(parent, "Bridge", None, bridge_type="0-1", depth="0", bridge_pci=f"0000:[{first:02x}-{last:02x}]")

    def bridge(self, parent, depth: int, bus_id: str, first: int, last: int):
        return self.add(parent, "Bridge", None, bridge_type="1-1", depth=str(depth),
                        bridge_pci=f"0000:[{first:02x}-{last:02x}]", pci_busid=bus_id,
                        pci_type="0604 [8086:347a] [0000:0000] 04", pci_link_speed="0.000000")

    def device(self, parent, bus_id: str, pci_class: str, vendor: str):
        return self.add(parent, "PCIDev", None, pci_busid=bus_id, pci_link_speed="0.000000",
                        pci_type=f"{pci_class} [{vendor}:1021] [{vendor}:0041] 00")

    def nic(self, parent, bus_id: str, name: str, *netdevs: str):
        pci = self.device(parent, bus_id, "0207" if not netdevs else "0200", MELLANOX)
        for netdev in netdevs:
            self.add(pci, "OSDev", None, name=netdev, osdev_type=OS_NETWORK)
        self.add(pci, "OSDev", None, name=name, osdev_type=OS_OPENFABRICS)

    def write(self, name: str) -> None:
        ElementTree.indent(self.root)
        root = ElementTree.Element("topology", {"version": "2.0"})
        root.append(self.root)
        ElementTree.indent(root, " ")
        text = ElementTree.tostring(root, encoding="unicode")
        path = pathlib.Path(__file__).parent / f"{name}.xml"
        path.write_text('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n' + text + "\n")


def eight_gpus() -> None:
    """Two sockets; per socket two root complexes, each with two switches of one NIC and one GPU."""
    machine = Machine(packages=2, nodes_per_package=1)
    number = 0
    for socket in range(2):
        for _ in range(2):
            base = 0x10 + number * 0x10
            complex_ = machine.host_bridge(machine.nodes[socket], base, base + 0x1f)
            for _ in range(2):
                bus = 0x10 + number * 0x10
                port = machine.bridge(complex_, 1, f"0000:{base:02x}:{number % 2 + 1:02x}.0", bus + 1, bus + 8)
                up = machine.bridge(port, 2, f"0000:{bus + 1:02x}:00.0", bus + 2, bus + 8)
                for slot, pci in enumerate(("gpu", "nic")):
                    down = machine.bridge(up, 3, f"0000:{bus + 2:02x}:{slot:02x}.0", bus + 3 + slot, bus + 3 + slot)
                    where = f"0000:{bus + 3 + slot:02x}:00.0"
                    if pci == "gpu":
                        machine.device(down, where, "0302", NVIDIA)
                    else:
                        machine.nic(down, where, f"mlx5_{number}", f"ens{number}np0")
                number += 1
    # The management console is no GPU.
    console = machine.host_bridge(machine.nodes[0], 0, 1)
    machine.device(machine.bridge(console, 1, "0000:00:1c.0", 1, 1), "0000:01:00.0", "0300", ASPEED)
    machine.write("two_sockets_eight_gpus")


def four_nodes_a_socket() -> None:
    """Two sockets of four NUMA nodes; a card with two ports on node 2, one on node 5; a GPU without a NIC near it."""
    machine = Machine(packages=2, nodes_per_package=4)
    port = machine.bridge(machine.host_bridge(machine.nodes[2], 0x40, 0x4f), 1, "0000:40:01.1", 0x41, 0x41)
    machine.nic(port, "0000:41:00.0", "mlx5_0", "enp65s0f0np0")
    machine.nic(port, "0000:41:00.1", "mlx5_1", "enp65s0f1np1")
    port = machine.bridge(machine.host_bridge(machine.nodes[5], 0xa0, 0xaf), 1, "0000:a0:01.1", 0xa1, 0xa1)
    machine.nic(port, "0000:a1:00.0", "mlx5_2")
    port = machine.bridge(machine.host_bridge(machine.nodes[3], 0x60, 0x6f), 1, "0000:60:01.1", 0x61, 0x61)
    machine.device(port, "0000:61:00.0", "1200", AMD)
    machine.write("two_sockets_four_nodes_each")


def virtual() -> None:
    """A virtual machine with two nodes whose devices hang below no node: their place is unknown."""
    machine = Machine(packages=2, nodes_per_package=1)
    complex_ = machine.host_bridge(machine.root, 0, 0)
    for number in (10, 9, 2):
        machine.nic(complex_, f"0000:00:{number:02x}.0", f"mlx5_{number}", f"eth{number}")
    machine.device(complex_, "0000:00:1f.0", "0302", NVIDIA)
    machine.write("virtual_two_nodes")


def plain() -> None:
    """One node, one Ethernet card without RDMA."""
    machine = Machine(packages=1, nodes_per_package=1)
    pci = machine.device(machine.host_bridge(machine.nodes[0], 0, 0), "0000:00:03.0", "0200", "1af4")
    machine.add(pci, "OSDev", None, name="eth0", osdev_type=OS_NETWORK)
    machine.write("plain")


eight_gpus()
four_nodes_a_socket()
virtual()
plain()
