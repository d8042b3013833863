// What this process and its devices allow to be registered: checked before a page is pinned.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace wb::verbs {

struct LockLimits {
  uint64_t memlock = UINT64_MAX;  // RLIMIT_MEMLOCK
  uint64_t pinned = 0;            // VmPin of this process
  bool exempt = false;            // CAP_IPC_LOCK: the limit does not count
};

// `root` is put in front of /proc: a test's own files.
LockLimits lock_limits(const std::string& root = "");

struct DeviceLimits {
  std::string device;
  int max_regions = 0;  // max_mr; 0: not told
};

// Whether `bytes` can be registered through `rails` NICs (each pins its own count of the pages), in
// `slices` parts per NIC. kNoMemory says which limit is in the way, and how to raise it.
Status check_lock_limit(uint64_t bytes, uint64_t rails, const LockLimits& limits);
Status check_device_limit(uint64_t slices, uint64_t registered, const DeviceLimits& limits);

}  // namespace wb::verbs
