#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/status.h"
#include "cli/doctor/check.h"
#include "cli/doctor/findings.h"
#include "cli/reporter.h"

namespace wb::cli::doctor {
namespace {

constexpr char kMemlockCure[] =
    "raise it: ulimit -l unlimited (limits.conf: memlock unlimited; systemd: "
    "LimitMEMLOCK=infinity; docker: --ulimit memlock=-1)";

std::string bytes(uint64_t value) { return human_bytes(static_cast<double>(value)); }

std::string nodes_text(const std::vector<uint32_t>& nodes) {
  std::string text;
  for (const uint32_t node : nodes) text += (text.empty() ? "" : ",") + std::to_string(node);
  return text;
}

void check_nic_place(const MachineFacts& facts, const DeviceFacts& device, Findings* out) {
  if (device.software) return;
  const TopologyNic* nic = facts.memory.topology.nic(device.name);
  const std::string subject = "memory " + device.name;
  if (nic != nullptr && !nic->place.nodes.empty()) {
    return ok(out, subject, "on NUMA node " + nodes_text(nic->place.nodes));
  }
  if (facts.memory.topology.nodes.size() < 2) return;
  note(out, subject, "the system does not tell its NUMA node",
       "in a virtual machine, let the hypervisor show the PCIe topology; else name the devices "
       "to use per process");
}

}  // namespace

Findings check_limits(const MachineFacts& facts) {
  Findings out;
  const LimitFacts& limits = facts.limits;
  constexpr uint64_t kTiny = 64u << 20;
  if (!limits.memlock || limits.may_lock) {
    ok(&out, "limits",
       limits.memlock ? "locked memory: allowed without limit (CAP_IPC_LOCK)"
                      : "locked memory: unlimited");
  } else if (facts.rdma.devices.empty()) {
    note(&out, "limits", "locked memory: at most " + bytes(*limits.memlock),
         std::string("for RDMA, ") + kMemlockCure);
  } else if (*limits.memlock < kTiny) {
    problem(&out, "limits",
            "locked memory: at most " + bytes(*limits.memlock) + ", weights cannot be registered",
            kMemlockCure);
  } else {
    note(&out, "limits", "locked memory: at most " + bytes(*limits.memlock) + " can be registered",
         kMemlockCure);
  }
  constexpr uint64_t kFewFiles = 1024;
  if (limits.files < kFewFiles) {
    note(&out, "limits", fmt::format("open files: at most {}", limits.files),
         "raise it (ulimit -n 65536): each peer takes a few");
  } else {
    ok(&out, "limits", fmt::format("open files: at most {}", limits.files));
  }
  return out;
}

Findings check_memory(const MachineFacts& facts) {
  Findings out;
  const MemoryFacts& memory = facts.memory;
  ok(&out, "memory", bytes(memory.available) + " available");
  if (memory.huge_page == 0 || memory.huge_total == 0) {
    note(&out, "memory", "no huge pages are set aside",
         "only needed with huge pages asked for: sysctl vm.nr_hugepages=N, best at boot");
  } else if (memory.huge_free == 0) {
    note(&out, "memory",
         fmt::format("all {} huge pages of {} are taken", memory.huge_total,
                     bytes(memory.huge_page)),
         "free some, or set more aside: sysctl vm.nr_hugepages=N");
  } else {
    ok(&out, "memory",
       fmt::format("{} of {} huge pages of {} are free", memory.huge_free, memory.huge_total,
                   bytes(memory.huge_page)));
  }
  if (!memory.topology_error.empty()) {
    note(&out, "memory", memory.topology_error,
         "install hwloc's library, so that processes use the NICs near their memory (Debian: apt "
         "install libhwloc15)");
    return out;
  }
  ok(&out, "memory",
     fmt::format("{} NUMA node{}", memory.topology.nodes.size(),
                 memory.topology.nodes.size() == 1 ? "" : "s"));
  for (const DeviceFacts& device : facts.rdma.devices) check_nic_place(facts, device, &out);
  return out;
}

Findings check_local(const MachineFacts& facts, const Needs& needs) {
  Findings out;
  const LocalFacts& local = facts.local;
  if (local.memfd_error != 0) {
    missing(&out, needs.local, "local",
            fmt::format("sealed shared memory cannot be made: {}", error_text(local.memfd_error)),
            facts.kernel_major < 5 || (facts.kernel_major == 5 && facts.kernel_minor < 1)
                ? "use a kernel of 5.1 or later"
                : "let the sandbox allow memfd_create, and leave some memory to this process");
  } else {
    ok(&out, "local", "shared memory can be made, sealed and mapped");
  }
  if (local.read_error == ENOSYS) {
    note(&out, "local", "this kernel or sandbox has no process_vm_readv",
         "give the weights shared memory (--memory shared), or let the sandbox allow the call");
    return out;
  }
  if (local.read_error != 0) {
    note(&out, "local",
         fmt::format("reading another process's memory is forbidden: {}",
                     error_text(local.read_error)),
         "let the container trace (docker: --cap-add SYS_PTRACE), or give the weights shared "
         "memory (--memory shared)");
    return out;
  }
  const int scope = local.ptrace_scope.value_or(0);
  if (scope >= 2 && !facts.limits.may_trace) {
    note(&out, "local",
         fmt::format("kernel.yama.ptrace_scope is {}: memory that the library did not allocate "
                     "cannot be read by other processes",
                     scope),
         scope == 2 ? "sysctl kernel.yama.ptrace_scope=1, or give the process CAP_SYS_PTRACE"
                    : "boot with kernel.yama.ptrace_scope=1: 3 cannot be taken back at run time");
  } else if (scope == 1) {
    ok(&out, "local",
       "kernel.yama.ptrace_scope is 1: a publisher lets its authenticated readers in");
  } else {
    ok(&out, "local", "processes of one user may read each other's memory");
  }
  return out;
}

Findings check_ucx(const MachineFacts& facts, const Needs& needs) {
  Findings out;
  const UcxFacts& ucx = facts.ucx;
  if (!ucx.error.empty()) {
    missing(&out, needs.ucx, "ucx", ucx.error, "install UCX (Debian: apt install libucx0)");
    return out;
  }
  if (ucx.major < 1 || (ucx.major == 1 && ucx.minor < 10)) {
    problem(&out, "ucx", "version " + ucx.version + " is too old", "install UCX 1.10 or later");
    return out;
  }
  std::string names;
  bool reliable = false, tcp = false;
  for (const std::string& transport : ucx.transports) {
    names += (names.empty() ? "" : ", ") + transport;
    reliable = reliable || transport.starts_with("rc_") || transport.starts_with("dc_") ||
               transport.starts_with("srd");
    tcp = tcp || transport.starts_with("tcp");
  }
  const std::string text =
      "version " + ucx.version + (names.empty() ? "" : "; transports " + names);
  if (!ucx.tls.empty() || !ucx.net_devices.empty()) {
    note(&out, "ucx",
         "the environment narrows it: " + (ucx.tls.empty() ? "" : "UCX_TLS=" + ucx.tls + " ") +
             (ucx.net_devices.empty() ? "" : "UCX_NET_DEVICES=" + ucx.net_devices),
         "unset what is not meant for this job");
  }
  if (!reliable && usable_rdma(facts)) {
    problem(&out, "ucx", text + ": no RDMA although a port could carry it",
            "install a UCX that was built with verbs, with its ib module (libuct_ib.so)");
  } else if (!reliable && !tcp) {
    missing(&out, needs.ucx, "ucx", text + ": nothing that reaches another machine",
            "install UCX's modules for this network");
  } else if (!reliable) {
    note(&out, "ucx", text + ": over TCP a source's processor helps in every read",
         "use a machine with an RDMA NIC where the trainer must not be disturbed");
  } else {
    ok(&out, "ucx", text);
  }
  return out;
}

Findings check_gpu(const MachineFacts& facts, const Needs& needs) {
  Findings out;
  const CudaFacts& cuda = facts.cuda;
  constexpr uint16_t kNvidia = 0x10de;
  const auto& on_bus = facts.memory.topology.gpus;
  const bool plugged = std::any_of(on_bus.begin(), on_bus.end(),
                                   [](const TopologyGpu& gpu) { return gpu.vendor == kNvidia; });
  if (!cuda.error.empty() || cuda.gpus.empty()) {
    const std::string why =
        cuda.error.empty() ? "the CUDA driver " + cuda.driver + " shows no GPU" : cuda.error;
    if (plugged) {
      problem(&out, "gpu", "an NVIDIA GPU is plugged in, but " + why,
              "install the driver (in a container: the NVIDIA container toolkit, --gpus all)");
    } else {
      missing(&out, needs.gpu, "gpu", why, "use a machine with an NVIDIA GPU and its driver");
    }
    return out;
  }
  const bool kernel_dmabuf =
      facts.kernel_major > 5 || (facts.kernel_major == 5 && facts.kernel_minor >= 12);
  for (const GpuFacts& gpu : cuda.gpus) {
    const std::string text =
        fmt::format("{} at {}, driver for CUDA {}", gpu.name, gpu.bus_id, cuda.driver);
    if (gpu.dmabuf && kernel_dmabuf) {
      ok(&out, "gpu", text + ", memory can be registered by dmabuf");
    } else if (cuda.peermem) {
      ok(&out, "gpu", text + ", memory can be registered by nvidia_peermem");
    } else if (facts.rdma.devices.empty()) {
      ok(&out, "gpu", text);
    } else {
      note(&out, "gpu", text + ": NICs cannot reach its memory",
           gpu.dmabuf ? "use a kernel of 5.12 or later for dmabuf, or modprobe nvidia_peermem"
                      : "install the open kernel modules (dmabuf), or modprobe nvidia_peermem");
    }
  }
  return out;
}

}  // namespace wb::cli::doctor
