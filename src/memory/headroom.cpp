#include "memory/headroom.h"

#include <sys/resource.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

namespace wb {
namespace {

std::optional<uint64_t> to_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The number after `key` at the start of a line: "MemAvailable:   1234 kB", "inactive_file 99".
std::optional<uint64_t> field(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!std::string_view(line).starts_with(key)) continue;
    const size_t digits = line.find_first_of("0123456789", key.size());
    if (digits == std::string::npos) return std::nullopt;
    return to_number(std::string_view(line).substr(digits));
  }
  return std::nullopt;
}

uint64_t minus(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

void tighten(Headroom& headroom, uint64_t bytes, std::string limit) {
  if (bytes < headroom.bytes) headroom = {bytes, std::move(limit)};
}

struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // page cache that the kernel drops before it refuses memory
};
constexpr CgroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file"};
constexpr CgroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                   "total_inactive_file"};

// A limit holds for every descendant, so each level from `path` up to the mount is looked at.
// Inside a container the path may name directories that only the host sees: those have no files
// here.
void tighten_by_cgroup(Headroom& headroom, const std::string& mount, std::string path,
                       const CgroupFiles& files) {
  while (true) {
    const std::string directory = mount + path + "/";
    const auto limit = to_number(read_file(directory + files.limit));  // "max" is no number
    const auto usage = to_number(read_file(directory + files.usage));
    if (limit && usage) {
      const uint64_t cache =
          field(read_file(directory + "memory.stat"), files.reclaimable).value_or(0);
      tighten(headroom, minus(*limit, minus(*usage, cache)),
              std::string("the cgroup's ") + files.limit + " in " + directory);
    }
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

void tighten_by_cgroups(Headroom& headroom, const std::string& root) {
  std::istringstream lines(read_file(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    const std::string below_mount = path == "/" ? "" : path;
    if (controllers == ",,") {
      tighten_by_cgroup(headroom, root + "/sys/fs/cgroup", below_mount, kVersion2);
    } else if (controllers.find(",memory,") != std::string::npos) {
      tighten_by_cgroup(headroom, root + "/sys/fs/cgroup/memory", below_mount, kVersion1);
    }
  }
}

void tighten_by_rlimit(Headroom& headroom, decltype(RLIMIT_AS) resource, uint64_t used,
                       const char* name) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  tighten(headroom, minus(limit.rlim_cur, used), name);
}

}  // namespace

Headroom memory_headroom(PageUse use, const std::string& root) {
  constexpr uint64_t kKib = 1024;
  Headroom headroom;
  const std::string meminfo = read_file(root + "/proc/meminfo");
  if (const auto available = field(meminfo, "MemAvailable:")) {
    tighten(headroom, *available * kKib, "MemAvailable in /proc/meminfo");
  }
  if (to_number(read_file(root + "/proc/sys/vm/overcommit_memory")) == 2) {
    const auto commit_limit = field(meminfo, "CommitLimit:");
    const auto committed = field(meminfo, "Committed_AS:");
    if (commit_limit && committed) {
      tighten(headroom, minus(*commit_limit, *committed) * kKib,
              "CommitLimit (vm.overcommit_memory is 2)");
    }
  }
  tighten_by_cgroups(headroom, root);

  const std::string status = read_file(root + "/proc/self/status");
  tighten_by_rlimit(headroom, RLIMIT_AS, field(status, "VmSize:").value_or(0) * kKib,
                    "RLIMIT_AS (ulimit -v)");
  if (use == PageUse::kAnonymous) {
    tighten_by_rlimit(headroom, RLIMIT_DATA, field(status, "VmData:").value_or(0) * kKib,
                      "RLIMIT_DATA (ulimit -d)");
  } else {
    // Sizing a memfd beyond this limit would kill the process with SIGXFSZ.
    tighten_by_rlimit(headroom, RLIMIT_FSIZE, 0, "RLIMIT_FSIZE (ulimit -f)");
  }
  return headroom;
}

HugePages huge_pages_free(const std::string& root) {
  const std::string meminfo = read_file(root + "/proc/meminfo");
  const uint64_t page = field(meminfo, "Hugepagesize:").value_or(0) * 1024;
  const uint64_t available = minus(field(meminfo, "HugePages_Free:").value_or(0),
                                   field(meminfo, "HugePages_Rsvd:").value_or(0));
  return {page, page * available};
}

}  // namespace wb
