#include "session/snapshot.h"

#include <algorithm>
#include <cstring>

#include "base/racy_copy.h"

namespace wb {
namespace {

// Readers may be reading the slot: the header tells them. Under TSan, which cannot see that, the
// stores are word-atomic like the loads of racy_copy().
void copy_under_readers(std::byte* to, const std::byte* from, uint64_t bytes) {
#if defined(WB_TSAN)
  uint64_t at = 0;
  for (; bytes - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, from + at, sizeof word);
    __atomic_store_n(reinterpret_cast<uint64_t*>(to + at), word, __ATOMIC_RELAXED);
  }
  for (; at < bytes; ++at) __atomic_store_n(to + at, from[at], __ATOMIC_RELAXED);
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace

Result<SnapshotSlots> SnapshotSlots::create(const WorkerLayout& layout, uint32_t slots,
                                            bool huge_pages) {
  WB_ASSIGN_OR_RETURN(const PackedMemory packed, pack_memory(layout));
  AllocationOptions options;
  options.huge_pages = huge_pages;
  options.name = "weightbridge-snapshot";
  SnapshotSlots out;
  for (uint32_t slot = 0; slot < slots; ++slot) {
    auto memory = Allocation::shared(packed.bytes, options);
    if (!memory.ok()) {
      return memory.status().prefixed("snapshot slot " + std::to_string(slot + 1) + " of " +
                                      std::to_string(slots) + ": ");
    }
    out.memory_.push_back(std::move(memory).value());
  }
  for (const uint64_t offset : packed.offsets) out.placement_.push_back({0, offset});
  out.versions_.resize(slots);
  return out;
}

uint32_t SnapshotSlots::next() const {
  // An empty optional is less than any version.
  const auto oldest = std::min_element(versions_.begin(), versions_.end());
  return static_cast<uint32_t>(oldest - versions_.begin());
}

void SnapshotSlots::fill(uint32_t slot, const WorkerLayout& layout, const BoundMemory& live) const {
  for (size_t i = 0; i < layout.buffers.size(); ++i) {
    copy_under_readers(memory_[slot]->data() + placement_[i].offset, live.buffer(i),
                       layout.buffers[i].bytes);
  }
}

}  // namespace wb
