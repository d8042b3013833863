#include "transport/verbs/limits.h"

#include <linux/capability.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>

#include "base/checked.h"

namespace wb::verbs {
namespace {

std::string mib(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

LockLimits lock_limits(const std::string& root) {
  LockLimits out;
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    out.memlock = limit.rlim_cur;
  }
  std::ifstream file(root + "/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "VmPin:") {
      uint64_t kib = 0;
      if (words >> kib) out.pinned = kib << 10;
    } else if (name == "CapEff:") {
      uint64_t mask = 0;
      if (words >> std::hex >> mask) out.exempt = ((mask >> CAP_IPC_LOCK) & 1) != 0;
    }
  }
  return out;
}

Status check_lock_limit(uint64_t bytes, uint64_t rails, const LockLimits& limits) {
  if (limits.exempt || limits.memlock == UINT64_MAX) return Status();
  const auto pinned = checked_mul(bytes, rails);
  const auto total = pinned ? checked_add(*pinned, limits.pinned) : pinned;
  if (total && *total <= limits.memlock) return Status();
  return Status(Code::kNoMemory,
                "registering " + mib(bytes) + " with " + std::to_string(rails) +
                    " RDMA port(s) would lock more than RLIMIT_MEMLOCK allows (" +
                    mib(limits.memlock) + ", of which " + mib(limits.pinned) +
                    " are in use): raise it with \"ulimit -l unlimited\", LimitMEMLOCK=infinity "
                    "in the systemd unit, \"memlock unlimited\" in /etc/security/limits.conf, or "
                    "--ulimit memlock=-1 of the container");
}

Status check_device_limit(uint64_t slices, uint64_t registered, const DeviceLimits& limits) {
  if (limits.max_regions <= 0) return Status();
  const auto most = static_cast<uint64_t>(limits.max_regions);
  if (registered <= most && slices <= most - registered) return Status();
  return Status(Code::kNoMemory,
                limits.device + " holds at most " + std::to_string(most) +
                    " memory registrations (max_mr); " + std::to_string(slices) +
                    " more are needed beside the " + std::to_string(registered) +
                    " of this process: bind the buffers to fewer, larger allocations, or raise "
                    "max_slice");
}

}  // namespace wb::verbs
