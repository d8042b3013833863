// What the doctor knows about this machine: plain facts, gathered by gather.h, judged by check.h.
// An absent optional, or an empty string, is a thing that the system does not tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memory/topology.h"

namespace wb::cli::doctor {

struct PciFacts {
  std::string bus_id;
  std::string iommu;  // kind of its IOMMU group: "identity", "DMA", "DMA-FQ"; empty: none
  double link_gts = 0, link_max_gts = 0;  // GT/s per lane, now and at most
  uint32_t lanes = 0, max_lanes = 0;
  std::optional<bool> relaxed_ordering;      // enabled in its Device Control register
  std::optional<uint32_t> max_read_request;  // bytes
  // Bridges above it whose ACS sends traffic between devices up to the root complex.
  std::vector<std::string> redirecting_bridges;
  bool bridges_hidden = false;  // the registers can be read by root only
};

struct GidFacts {
  uint32_t index = 0;
  std::string address;  // "10.0.0.1", "fe80::1"
  bool roce2 = false;
  bool link_local = false;
  std::string netdev;
};

struct PortFacts {
  uint32_t number = 1;
  std::string state;     // "ACTIVE", "INIT", "DOWN"
  std::string physical;  // "LinkUp", "Polling", "Disabled"
  bool infiniband = false;
  double gbps = 0;
  uint32_t subnet_manager = 0;  // its LID; 0: none has answered (InfiniBand)
  uint32_t active_mtu = 0;
  std::vector<GidFacts> gids;
  std::string netdev;
  uint32_t netdev_mtu = 0;
  uint64_t lost_packets =
      0;  // out of sequence, sequence errors and time-outs since the driver began
};

// From libibverbs.
struct DeviceCaps {
  uint32_t reads_as_reader = 0;  // max_qp_init_rd_atom: READs in flight per queue pair
  uint32_t reads_as_source = 0;  // max_qp_rd_atom
  uint64_t max_regions = 0;
  uint64_t max_region_bytes = 0;
  uint32_t max_scatter = 0;
};

struct DeviceFacts {
  std::string name;
  std::string driver;  // "mlx5_core"; empty for a software device
  std::string firmware;
  bool software = false;
  std::string node;        // "/dev/infiniband/uverbs0"; empty: the kernel has none for it
  int node_error = 0;      // errno of opening it for reading and writing
  bool in_library = true;  // libibverbs lists it: a provider for it is installed
  std::string open_error;  // libibverbs cannot open it
  std::optional<DeviceCaps> caps;
  std::optional<PciFacts> pci;
  std::vector<PortFacts> ports;
};

struct RdmaFacts {
  std::string library_error;  // why libibverbs cannot be used; empty: it can
  std::vector<DeviceFacts> devices;
  // PCI functions of known RDMA cards that no RDMA device belongs to: "0000:41:00.0".
  std::vector<std::string> cards_without_device;
};

struct LimitFacts {
  std::optional<uint64_t> memlock;  // absent: unlimited
  bool may_lock = false;            // CAP_IPC_LOCK: the limit does not count
  bool may_trace = false;           // CAP_SYS_PTRACE
  uint64_t files = 0;               // RLIMIT_NOFILE
};

struct MemoryFacts {
  uint64_t available = 0;                  // bytes
  uint64_t huge_page = 0;                  // size; 0: none configured on this kernel
  uint64_t huge_total = 0, huge_free = 0;  // pages
  std::string topology_error;
  Topology topology;
};

struct LocalFacts {
  std::optional<int> ptrace_scope;  // Yama; absent: no Yama
  int read_error = 0;               // errno of process_vm_readv on a child of ours
  int memfd_error = 0;              // errno of making and sealing a memfd
};

struct UcxFacts {
  std::string error;  // why UCX cannot be used
  std::string version;
  uint32_t major = 0, minor = 0;
  std::vector<std::string> transports;  // "rc_verbs/mlx5_0:1", "tcp/eth0"
  std::string tls, net_devices;         // of the environment
};

struct GpuFacts {
  std::string name;
  std::string bus_id;
  bool dmabuf = false;  // the driver exports its memory as dmabuf
};

struct CudaFacts {
  std::string error;   // why the driver cannot be used
  std::string driver;  // "12.4"
  std::vector<GpuFacts> gpus;
  bool peermem = false;  // nvidia_peermem (or nv_peer_mem) is loaded
};

struct MachineFacts {
  std::string kernel;  // "6.1.0-57-amd64"
  uint32_t kernel_major = 0, kernel_minor = 0;
  bool root = false;
  RdmaFacts rdma;
  LimitFacts limits;
  MemoryFacts memory;
  LocalFacts local;
  UcxFacts ucx;
  CudaFacts cuda;
};

}  // namespace wb::cli::doctor
