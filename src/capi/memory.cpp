#include "capi/memory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

#include "base/checked.h"
#include "capi/error.h"
#include "capi/sized.h"

namespace wb::capi {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// By base address. Live entries never overlap: the kernel or the caller's own ranges keep them
// apart, and adopt() checks.
struct Known {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<Allocation>> all;
  std::map<uint64_t, std::shared_ptr<Allocation>> owned;  // until wb_memory_free()
};

Known& known() {
  static auto* const instance = new Known;  // never destroyed: see handle.cpp
  return *instance;
}

// The live allocation that meets [begin, end), or null. Drops dead entries on the way.
std::shared_ptr<Allocation> meet(Known& in, uint64_t begin, uint64_t end) {
  auto next = in.all.lower_bound(end);
  while (next != in.all.begin()) {
    const auto entry = std::prev(next);
    auto memory = entry->second.lock();
    if (memory == nullptr) {
      next = in.all.erase(entry);
      continue;
    }
    return entry->first + memory->bytes() > begin ? memory : nullptr;
  }
  return nullptr;
}

Status wraps() {
  return Status(Code::kInvalidArgument, "the range wraps around the address space");
}

Status own(std::shared_ptr<Allocation> memory) {
  Known& in = known();
  const uint64_t begin = address_of(memory->data());
  const std::lock_guard lock(in.mutex);
  if (meet(in, begin, begin + memory->bytes()) != nullptr) {
    return Status(Code::kInvalidArgument, "the range overlaps memory that the library knows");
  }
  in.all[begin] = memory;
  in.owned[begin] = std::move(memory);
  return Status();
}

Status disown(const void* data) {
  Known& in = known();
  std::shared_ptr<Allocation> memory;  // unmapped after the lock is released
  const std::lock_guard lock(in.mutex);
  const auto entry = in.owned.find(address_of(data));
  if (entry == in.owned.end()) {
    return Status(Code::kInvalidArgument,
                  "not the start of memory from wb_memory_alloc or wb_memory_adopt");
  }
  memory = std::move(entry->second);
  in.owned.erase(entry);
  // Adopted memory is forgotten at once, though a layout may keep its Allocation.
  if (memory->kind() == MemoryKind::kCaller) in.all.erase(address_of(data));
  return Status();
}

}  // namespace

Result<MemoryWish> read_memory_options(const wb_memory_options* given) {
  WB_ASSIGN_OR_RETURN(const wb_memory_options read, read_sized(given, "memory options"));
  MemoryWish wish;
  switch (read.kind) {
    case 0:
    case WB_MEMORY_SHARED:
      wish.kind = MemoryKind::kShared;
      break;
    case WB_MEMORY_HOST:
      wish.kind = MemoryKind::kHost;
      break;
    default:
      return Status(Code::kInvalidArgument,
                    "memory options: kind " + std::to_string(read.kind) + " is none");
  }
  wish.options.huge_pages = read.huge_pages != 0;
  if (read.name != nullptr) wish.options.name = read.name;
  return wish;
}

void remember(const std::shared_ptr<Allocation>& memory) {
  Known& in = known();
  const std::lock_guard lock(in.mutex);
  in.all[address_of(memory->data())] = memory;
}

Result<std::optional<BoundBuffer>> recognise(const void* data, uint64_t bytes) {
  const uint64_t begin = address_of(data);
  const auto end = checked_add(begin, bytes);
  if (!end) return wraps();
  Known& in = known();
  const std::lock_guard lock(in.mutex);
  auto memory = meet(in, begin, *end);
  if (memory == nullptr) return std::optional<BoundBuffer>();
  const uint64_t base = address_of(memory->data());
  if (begin < base || !range_inside(begin - base, bytes, memory->bytes())) {
    return Status(Code::kInvalidArgument, "the range of " + std::to_string(bytes) +
                                              " bytes lies only partly inside an allocation of " +
                                              std::to_string(memory->bytes()) +
                                              " bytes that the library knows");
  }
  return std::optional<BoundBuffer>(BoundBuffer{std::move(memory), begin - base});
}

Result<std::vector<BoundBuffer>> group_ranges(std::span<const CallerRange> ranges) {
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return ranges[a].data < ranges[b].data; });
  std::erase_if(order, [&](size_t i) { return ranges[i].bytes == 0; });
  std::vector<BoundBuffer> bound(ranges.size());
  for (size_t first = 0; first < order.size();) {
    const uint64_t begin = address_of(ranges[order[first]].data);
    uint64_t end = begin;
    size_t last = first;
    for (; last < order.size(); ++last) {
      const CallerRange& range = ranges[order[last]];
      const uint64_t start = address_of(range.data);
      if (last != first && start >= end && start - end >= kPage) break;
      const auto stop = checked_add(start, range.bytes);
      if (!stop) return wraps();
      end = std::max(end, *stop);
    }
    WB_ASSIGN_OR_RETURN(const auto memory,
                        Allocation::caller(ranges[order[first]].data, end - begin));
    for (; first < last; ++first) {
      const size_t i = order[first];
      bound[i] = {memory, address_of(ranges[i].data) - begin};
    }
  }
  return bound;
}

}  // namespace wb::capi

extern "C" {

using namespace wb::capi;  // NOLINT(google-build-using-namespace): the file is its C face

wb_code wb_memory_alloc(const wb_memory_options* options, uint64_t bytes, void** data) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(data, "data"));
    *data = nullptr;
    if (bytes == 0) return wb::Status(wb::Code::kInvalidArgument, "an allocation of 0 bytes");
    WB_ASSIGN_OR_RETURN(const MemoryWish wish, read_memory_options(options));
    WB_ASSIGN_OR_RETURN(const auto memory, wish.kind == wb::MemoryKind::kShared
                                               ? wb::Allocation::shared(bytes, wish.options)
                                               : wb::Allocation::host(bytes, wish.options));
    WB_RETURN_IF_ERROR(own(memory));
    *data = memory->data();
    return wb::Status();
  });
}

wb_code wb_memory_adopt(void* data, uint64_t bytes) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_ASSIGN_OR_RETURN(auto memory, wb::Allocation::caller(data, bytes));
    return own(std::move(memory));
  });
}

wb_code wb_memory_free(void* data) WB_NOEXCEPT {
  return guarded([&]() -> wb::Status {
    WB_RETURN_IF_ERROR(not_null(data, "data"));
    return disown(data);
  });
}

}  // extern "C"
