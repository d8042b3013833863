#include "transport/local/regions.h"

#include <array>
#include <atomic>

namespace wb::local {
namespace {

Status gone() {
  return Status(Code::kPeerLost, "the source deregistered the memory while it was read");
}

Status check_mapped(std::span<const std::shared_ptr<const RemoteRegionRecord>> regions) {
  for (const auto& region : regions) {
    if (!region->mapped()) continue;
    const auto* word =
        reinterpret_cast<const uint64_t*>(region->stamps->data() + stamp_offset(region->key.slot));
    if (__atomic_load_n(word, __ATOMIC_RELAXED) != region->key.stamp) return gone();
  }
  return Status();
}

// Reads the stamps of regions[first...] that are not mapped, as many as one call takes; `first`
// moves behind the last one looked at.
Status check_some_by_process(std::span<const std::shared_ptr<const RemoteRegionRecord>> regions,
                             size_t& first, const ProcessReader& reader, RangeBatch& batch) {
  constexpr size_t kAtOnce = 64;
  std::array<uint64_t, kAtOnce> found{};
  std::array<uint64_t, kAtOnce> wanted{};
  size_t count = 0;
  batch.clear();
  for (; first < regions.size() && count < kAtOnce; ++first) {
    const RemoteRegionRecord& region = *regions[first];
    if (region.mapped()) continue;
    wanted[count] = region.key.stamp;
    batch.add(region.stamp_table + stamp_offset(region.key.slot),
              reinterpret_cast<std::byte*>(&found[count]), sizeof(uint64_t));
    ++count;
  }
  if (count == 0) return Status();
  WB_ASSIGN_OR_RETURN(const uint64_t got, reader.read(batch));
  return got == count * sizeof(uint64_t) && found == wanted ? Status() : gone();
}

}  // namespace

Status check_stamps(std::span<const std::shared_ptr<const RemoteRegionRecord>> regions,
                    const ProcessReader& reader, RangeBatch& batch) {
  // The copies before this call stay before the loads of the stamps: pairs with the fence in
  // StampTable::give_back. A stamp that still stands was there while the data was read.
  std::atomic_thread_fence(std::memory_order_acquire);
  WB_RETURN_IF_ERROR(check_mapped(regions));
  for (size_t first = 0; first < regions.size();) {
    WB_RETURN_IF_ERROR(check_some_by_process(regions, first, reader, batch));
  }
  return Status();
}

}  // namespace wb::local
