#include "memory/topology.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <memory>

#include "base/symbols.h"

namespace wb {
namespace {

// The calls that are used, and no inline helper of the header that would call others.
struct Hwloc {
  decltype(&hwloc_get_api_version) get_api_version = nullptr;
  decltype(&hwloc_topology_init) init = nullptr;
  decltype(&hwloc_topology_destroy) destroy = nullptr;
  decltype(&hwloc_topology_set_components) set_components = nullptr;
  decltype(&hwloc_topology_set_flags) set_flags = nullptr;
  decltype(&hwloc_topology_set_io_types_filter) set_io_types_filter = nullptr;
  decltype(&hwloc_topology_set_xmlbuffer) set_xmlbuffer = nullptr;
  decltype(&hwloc_topology_load) load = nullptr;
  decltype(&hwloc_get_type_depth) get_type_depth = nullptr;
  decltype(&hwloc_get_obj_by_depth) get_obj_by_depth = nullptr;
  decltype(&hwloc_bitmap_isset) bitmap_isset = nullptr;
};

// Opened once and never closed: hwloc keeps its components in static variables.
Result<Hwloc> open_hwloc() {
  void* handle = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string why = dlerror();  // NOLINT(concurrency-mt-unsafe): of this thread
    return Status(Code::kUnsupported,
                  "hwloc is not usable here: " + why + " (Debian: apt install libhwloc15)");
  }
  Hwloc hwloc;
  Symbols symbols(handle);
  symbols.get(hwloc.get_api_version, "hwloc_get_api_version");
  symbols.get(hwloc.init, "hwloc_topology_init");
  symbols.get(hwloc.destroy, "hwloc_topology_destroy");
  symbols.get(hwloc.set_components, "hwloc_topology_set_components");
  symbols.get(hwloc.set_flags, "hwloc_topology_set_flags");
  symbols.get(hwloc.set_io_types_filter, "hwloc_topology_set_io_types_filter");
  symbols.get(hwloc.set_xmlbuffer, "hwloc_topology_set_xmlbuffer");
  symbols.get(hwloc.load, "hwloc_topology_load");
  symbols.get(hwloc.get_type_depth, "hwloc_get_type_depth");
  symbols.get(hwloc.get_obj_by_depth, "hwloc_get_obj_by_depth");
  symbols.get(hwloc.bitmap_isset, "hwloc_bitmap_isset");
  // The layout of hwloc_obj is that of series 2.
  if (!symbols.missing().empty() || hwloc.get_api_version() >> 16 != HWLOC_API_VERSION >> 16) {
    return Status(Code::kUnsupported, "libhwloc.so.15 is not hwloc 2.1 or later");
  }
  return hwloc;
}

const Result<Hwloc>& hwloc_library() {
  static const Result<Hwloc> library = open_hwloc();
  return library;
}

class Tree {
 public:
  explicit Tree(const Hwloc& hwloc) : hwloc_(hwloc) {
    if (hwloc_.init(&topology_) != 0) topology_ = nullptr;
  }
  ~Tree() {
    if (topology_ != nullptr) hwloc_.destroy(topology_);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // `xml` null: this machine.
  Status load(const std::string* xml) {
    if (topology_ == nullptr) return Status(Code::kNoMemory, "hwloc cannot start");
    // Nothing that starts a GPU's driver in the host program, or moves its threads between
    // processors to ask them who they are: Linux's own files say enough.
    for (const char* component : {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl", "x86"}) {
      hwloc_.set_components(topology_, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
    }
    // A cgroup's processor set must not hide where a device is.
    hwloc_.set_flags(topology_, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    hwloc_.set_io_types_filter(topology_, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (xml != nullptr) {
      if (xml->size() >= static_cast<size_t>(std::numeric_limits<int>::max()) ||
          hwloc_.set_xmlbuffer(topology_, xml->c_str(), static_cast<int>(xml->size() + 1)) != 0) {
        return Status(Code::kBadData, "this is no topology in hwloc's XML");
      }
    }
    if (hwloc_.load(topology_) != 0) {
      return xml != nullptr ? Status(Code::kBadData, "hwloc refuses this XML")
                            : Status(Code::kIo, "hwloc cannot read this machine's topology");
    }
    return {};
  }

  template <typename F>
  void each(hwloc_obj_type_t type, F&& visit) const {
    const int depth = hwloc_.get_type_depth(topology_, type);
    if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) return;
    for (hwloc_obj_t object = hwloc_.get_obj_by_depth(topology_, depth, 0); object != nullptr;
         object = object->next_cousin) {
      visit(*object);
    }
  }

  bool in_nodeset(const hwloc_obj& object, uint32_t node) const {
    return object.nodeset != nullptr && hwloc_.bitmap_isset(object.nodeset, node) != 0;
  }

 private:
  const Hwloc& hwloc_;
  hwloc_topology_t topology_ = nullptr;
};

using PciFacts = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

std::string bus_id(const PciFacts& pci) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%01x", static_cast<unsigned>(pci.domain),
                static_cast<unsigned>(pci.bus), static_cast<unsigned>(pci.dev),
                static_cast<unsigned>(pci.func));
  return text.data();
}

const hwloc_obj* pci_parent(const hwloc_obj& object) {
  const hwloc_obj* up = object.parent;
  while (up != nullptr && up->type == HWLOC_OBJ_OS_DEVICE) up = up->parent;
  return up != nullptr && up->type == HWLOC_OBJ_PCI_DEVICE ? up : nullptr;
}

// A device below the whole machine is of unknown place, unless the machine is one node.
PciPlace place_of(const Tree& tree, const Topology& topology, const hwloc_obj& pci) {
  PciPlace place;
  place.bus_id = bus_id(pci.attr->pcidev);
  const hwloc_obj* up = pci.parent;
  for (; up != nullptr && up->type == HWLOC_OBJ_BRIDGE; up = up->parent) {
    place.bridges.push_back(static_cast<uint32_t>(up->gp_index));
  }
  std::reverse(place.bridges.begin(), place.bridges.end());
  if (up == nullptr) return place;
  for (const NumaNode& node : topology.nodes) {
    if (tree.in_nodeset(*up, node.index)) place.nodes.push_back(node.index);
  }
  if (up->type == HWLOC_OBJ_MACHINE && topology.nodes.size() > 1) place.nodes.clear();
  return place;
}

void add_nodes(const Tree& tree, Topology* topology) {
  tree.each(HWLOC_OBJ_NUMANODE, [&](const hwloc_obj& object) {
    topology->nodes.push_back({object.os_index, 0, object.attr->numanode.local_memory});
  });
  std::sort(topology->nodes.begin(), topology->nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.index < b.index; });
  uint32_t package = 0;
  tree.each(HWLOC_OBJ_PACKAGE, [&](const hwloc_obj& object) {
    for (NumaNode& node : topology->nodes) {
      if (tree.in_nodeset(object, node.index)) node.package = package;
    }
    ++package;
  });
}

void add_nics(const Tree& tree, Topology* topology) {
  struct Netdev {
    const hwloc_obj* pci;
    std::string name;
  };
  std::vector<Netdev> netdevs;
  tree.each(HWLOC_OBJ_OS_DEVICE, [&](const hwloc_obj& object) {
    if (object.attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && object.name != nullptr) {
      netdevs.push_back({pci_parent(object), object.name});
    }
  });
  tree.each(HWLOC_OBJ_OS_DEVICE, [&](const hwloc_obj& object) {
    if (object.attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS || object.name == nullptr) return;
    TopologyNic nic;
    nic.name = object.name;
    if (const hwloc_obj* pci = pci_parent(object)) {
      nic.place = place_of(tree, *topology, *pci);
      for (const Netdev& netdev : netdevs) {
        if (netdev.pci == pci) nic.netdevs.push_back(netdev.name);
      }
    }
    topology->nics.push_back(std::move(nic));
  });
  std::sort(topology->nics.begin(), topology->nics.end(),
            [](const TopologyNic& a, const TopologyNic& b) { return name_before(a.name, b.name); });
}

// Display controllers and accelerators of those who make GPUs: a server's management console is a
// display controller, too.
bool is_gpu(const PciFacts& pci) {
  const unsigned base_class = pci.class_id >> 8;
  constexpr unsigned kDisplay = 0x03, kAccelerator = 0x12;
  constexpr unsigned kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086;
  return (base_class == kDisplay || base_class == kAccelerator) &&
         (pci.vendor_id == kNvidia || pci.vendor_id == kAmd || pci.vendor_id == kIntel);
}

void add_gpus(const Tree& tree, Topology* topology) {
  tree.each(HWLOC_OBJ_PCI_DEVICE, [&](const hwloc_obj& object) {
    if (!is_gpu(object.attr->pcidev)) return;
    topology->gpus.push_back({place_of(tree, *topology, object), object.attr->pcidev.vendor_id});
  });
  std::sort(
      topology->gpus.begin(), topology->gpus.end(),
      [](const TopologyGpu& a, const TopologyGpu& b) { return a.place.bus_id < b.place.bus_id; });
}

Result<Topology> load(const std::string* xml) {
  const Result<Hwloc>& hwloc = hwloc_library();
  if (!hwloc.ok()) return hwloc.status();
  Tree tree(*hwloc);
  WB_RETURN_IF_ERROR(tree.load(xml));
  Topology topology;
  add_nodes(tree, &topology);
  add_nics(tree, &topology);
  add_gpus(tree, &topology);
  return topology;
}

}  // namespace

const NumaNode* Topology::node(uint32_t index) const {
  const auto it = std::find_if(nodes.begin(), nodes.end(),
                               [&](const NumaNode& node) { return node.index == index; });
  return it == nodes.end() ? nullptr : &*it;
}

const TopologyNic* Topology::nic(std::string_view name) const {
  const auto it = std::find_if(nics.begin(), nics.end(),
                               [&](const TopologyNic& nic) { return nic.name == name; });
  return it == nics.end() ? nullptr : &*it;
}

const TopologyGpu* Topology::gpu(std::string_view bus_id) const {
  const auto it = std::find_if(gpus.begin(), gpus.end(),
                               [&](const TopologyGpu& gpu) { return gpu.place.bus_id == bus_id; });
  return it == gpus.end() ? nullptr : &*it;
}

bool name_before(const std::string& a, const std::string& b) {
  return strverscmp(a.c_str(), b.c_str()) < 0;
}

Result<Topology> local_topology() { return load(nullptr); }

Result<Topology> topology_from_xml(const std::string& xml) { return load(&xml); }

}  // namespace wb
