#include "cli/doctor/gather.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>

#include "cli/doctor/sysfs.h"
#include "memory/headroom.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace wb::cli::doctor {
namespace {

constexpr char kVerbsLibrary[] = "libibverbs.so.1";

uint64_t effective_capabilities() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("CapEff:")) return std::strtoull(line.c_str() + 7, nullptr, 16);
  }
  return 0;
}

// errno of reading 8 bytes of a child's memory; a child may be read whatever Yama says, so a
// failure is the sandbox's or the kernel's.
int try_process_read() {
  static volatile uint64_t word = 0x77656967;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    for (;;) pause();
  }
  uint64_t copy = 0;
  iovec local{&copy, sizeof copy};
  iovec remote{const_cast<uint64_t*>(&word), sizeof word};
  const ssize_t read = process_vm_readv(child, &local, 1, &remote, 1, 0);
  const int error = read < 0 ? errno : read != sizeof copy || copy != word ? EIO : 0;
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return error;
}

int try_sealed_memory() {
  constexpr size_t kBytes = 4096;
  const int fd = memfd_create("weightbridge-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return errno;
  int error = 0;
  void* writable = MAP_FAILED;
  void* readable = MAP_FAILED;
  if (ftruncate(fd, kBytes) != 0 ||
      (writable = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) != 0 ||
      (readable = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED) {
    error = errno;
  }
  if (writable != MAP_FAILED) munmap(writable, kBytes);
  if (readable != MAP_FAILED) munmap(readable, kBytes);
  close(fd);
  return error;
}

}  // namespace

std::optional<int> gather_ptrace_scope(const std::string& root) {
  const std::string text = read_line(root + "/proc/sys/kernel/yama/ptrace_scope");
  if (text.empty()) return std::nullopt;
  return static_cast<int>(leading_number(text));
}

bool gather_peermem(const std::string& root) {
  std::ifstream file(root + "/proc/modules");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("nvidia_peermem ") || line.starts_with("nv_peer_mem ")) return true;
  }
  return false;
}

void gather_kernel(const std::string& release, MachineFacts* facts) {
  facts->kernel = release;
  const char* end = release.data() + release.size();
  const auto major = std::from_chars(release.data(), end, facts->kernel_major);
  if (major.ptr != end && *major.ptr == '.') {
    std::from_chars(major.ptr + 1, end, facts->kernel_minor);
  }
}

LimitFacts gather_limits() {
  LimitFacts limits;
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    limits.memlock = limit.rlim_cur;
  }
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) limits.files = limit.rlim_cur;
  const uint64_t capabilities = effective_capabilities();
  limits.may_lock = (capabilities >> CAP_IPC_LOCK & 1) != 0;
  limits.may_trace = (capabilities >> CAP_SYS_PTRACE & 1) != 0;
  return limits;
}

MemoryFacts gather_memory() {
  MemoryFacts memory;
  memory.available = memory_headroom(PageUse::kMemfd).bytes;
  const HugePages huge = huge_pages_free();
  memory.huge_page = huge.page_bytes;
  if (huge.page_bytes != 0) {
    memory.huge_free = huge.free_bytes / huge.page_bytes;
    memory.huge_total = number_in("/proc/sys/vm/nr_hugepages");
  }
  const Result<Topology> topology = local_topology();
  if (topology.ok()) {
    memory.topology = *topology;
  } else {
    memory.topology_error = topology.status().message();
  }
  return memory;
}

LocalFacts gather_local() {
  LocalFacts local;
  local.ptrace_scope = gather_ptrace_scope("");
  local.read_error = try_process_read();
  local.memfd_error = try_sealed_memory();
  return local;
}

MachineFacts gather() {
  MachineFacts facts;
  utsname name{};
  if (uname(&name) == 0) gather_kernel(name.release, &facts);
  facts.root = geteuid() == 0;
  facts.local = gather_local();  // first: it forks, and libraries may start threads
  facts.limits = gather_limits();
  facts.memory = gather_memory();
  facts.rdma = gather_rdma_files("");
  gather_verbs(kVerbsLibrary, &facts.rdma);
  facts.ucx = gather_ucx();
  facts.cuda = gather_cuda();
  facts.cuda.peermem = gather_peermem("");
  return facts;
}

}  // namespace wb::cli::doctor
