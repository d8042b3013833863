#include "memory/page_nodes.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace wb {
namespace {

constexpr size_t kSamples = 256;

std::vector<NodePages> sorted(const std::map<uint32_t, uint64_t>& counts) {
  std::vector<NodePages> nodes;
  for (const auto& [node, pages] : counts) nodes.push_back({node, pages});
  return nodes;
}

template <typename T>
bool parse(std::string_view text, T* value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  return error == std::errc() && end == text.data() + text.size();
}

// Cuts `text` at the first `separator`; what is left stays in *text.
std::string_view take(std::string_view* text, char separator) {
  const size_t at = std::min(text->find(separator), text->size());
  const std::string_view head = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return head;
}

}  // namespace

Result<std::vector<NodePages>> nodes_from_numa_maps(std::string_view text, uint64_t address) {
  // "7f00a4000000 default anon=512 dirty=512 N0=384 N1=128 kernelpagesize_kB=4": mappings ascend,
  // so the last one that begins at or below the address is the one.
  std::string_view found;
  while (!text.empty()) {
    std::string_view line = take(&text, '\n');
    const std::string_view whole = line;
    uint64_t begin = 0;
    if (!parse(take(&line, ' '), &begin, 16)) continue;
    if (begin > address) break;
    found = whole;
  }
  if (found.empty()) return Status(Code::kNotFound, "no mapping holds this address");
  std::map<uint32_t, uint64_t> counts;
  while (!found.empty()) {
    std::string_view word = take(&found, ' ');
    const std::string_view key = take(&word, '=');
    uint32_t node = 0;
    uint64_t pages = 0;
    if (key.size() > 1 && key[0] == 'N' && parse(key.substr(1), &node, 10) &&
        parse(word, &pages, 10)) {
      counts[node] += pages;
    }
  }
  return sorted(counts);
}

Result<std::vector<NodePages>> buffer_nodes(const void* base, uint64_t bytes) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = reinterpret_cast<uint64_t>(base) / page;
  if (base == nullptr || bytes == 0 || reinterpret_cast<uint64_t>(base) + bytes - 1 < bytes - 1) {
    return Status(Code::kInvalidArgument, "no buffer to look for");
  }
  const uint64_t pages = (reinterpret_cast<uint64_t>(base) + bytes - 1) / page - first + 1;
  const uint64_t count = std::min<uint64_t>(pages, kSamples);
  std::array<void*, kSamples> addresses{};
  std::array<int, kSamples> status{};
  for (uint64_t i = 0; i < count; ++i) {
    // At most 2^52 pages times 2^8 samples.
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address for the kernel
    addresses[i] = reinterpret_cast<void*>((first + pages * i / count) * page);
  }
  if (syscall(SYS_move_pages, 0, count, addresses.data(), nullptr, status.data(), 0) == 0) {
    std::map<uint32_t, uint64_t> counts;
    for (uint64_t i = 0; i < count; ++i) {
      if (status[i] >= 0) ++counts[static_cast<uint32_t>(status[i])];
    }
    return sorted(counts);
  }
  const int error = errno;
  if (error == ENOSYS) return Status(Code::kUnsupported, "this kernel knows no NUMA nodes");
  std::ifstream file("/proc/self/numa_maps");
  const std::string maps(std::istreambuf_iterator<char>(file), {});
  if (maps.empty()) return errno_status(error, "asking where a buffer's pages are (move_pages)");
  return nodes_from_numa_maps(maps, reinterpret_cast<uint64_t>(base));
}

}  // namespace wb
