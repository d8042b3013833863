// How much memory this process may still take, known before a page is touched.
#pragma once

#include <cstdint>
#include <string>

namespace wb {

struct Headroom {
  uint64_t bytes = UINT64_MAX;
  std::string limit = "nothing known";  // what sets it: "MemAvailable in /proc/meminfo"
};

// Which limits count: anonymous pages are data of the process, a memfd is a file.
enum class PageUse : uint8_t { kAnonymous, kMemfd };

// The tightest of the machine's available memory, the cgroup's limits (v2 and v1, every level up
// to the root), strict overcommit and the process's own limits. A limit that the system does not
// tell is no limit here. `root` is put in front of /proc and /sys: a test's own files.
Headroom memory_headroom(PageUse use, const std::string& root = "");

// Free explicit huge pages of the default size, and that size; zeros when there are none.
struct HugePages {
  uint64_t page_bytes = 0;
  uint64_t free_bytes = 0;
};
HugePages huge_pages_free(const std::string& root = "");

}  // namespace wb
