#include "transport/verbs/numa.h"

#include <sched.h>

#include <charconv>
#include <filesystem>
#include <string>

namespace wb::verbs {
namespace {

// The processor's folder in /sys has an entry "node3".
int node_of(int processor) {
  constexpr std::string_view kPrefix = "node";
  std::error_code error;
  const std::filesystem::directory_iterator entries(
      "/sys/devices/system/cpu/cpu" + std::to_string(processor), error);
  if (error) return -1;
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(kPrefix, 0) != 0) continue;
    int node = -1;
    const char* const digits = name.data() + kPrefix.size();
    const auto [end, failed] = std::from_chars(digits, name.data() + name.size(), node);
    if (failed == std::errc() && end == name.data() + name.size()) return node;
  }
  return -1;
}

}  // namespace

int own_numa_node() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails where the machine has more processors than the set: then they are of several nodes.
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return -1;
  int found = -1;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(static_cast<size_t>(processor), &allowed)) continue;
    const int node = node_of(processor);
    if (node < 0 || (found >= 0 && node != found)) return -1;
    found = node;
  }
  return found;
}

}  // namespace wb::verbs
