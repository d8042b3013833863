#include "transport/stamp_table.h"

#include <atomic>

namespace wb {

StampTable::StampTable(std::shared_ptr<Allocation> memory) : memory_(std::move(memory)) {
  free_.reserve(kStampSlots);
  for (uint32_t slot = kStampSlots; slot-- > 0;) free_.push_back(slot);
}

uint64_t* StampTable::word(uint32_t slot) const {
  return reinterpret_cast<uint64_t*>(memory_->data() + stamp_offset(slot));
}

Result<StampTable> StampTable::make(const Digest& incarnation) {
  WB_ASSIGN_OR_RETURN(auto memory,
                      Allocation::shared(kStampTableBytes, {.name = "weightbridge-stamps"}));
  auto* head = reinterpret_cast<uint64_t*>(memory->data());
  head[0] = incarnation.low;
  head[1] = incarnation.high;
  return StampTable(std::move(memory));
}

Result<StampTable::Entry> StampTable::take() {
  if (free_.empty()) {
    return Status(Code::kNoMemory, "more than " + std::to_string(kStampSlots) +
                                       " regions registered for reading at once");
  }
  const Entry entry{free_.back(), next_stamp_++};
  free_.pop_back();
  __atomic_store_n(word(entry.slot), entry.stamp, __ATOMIC_RELEASE);
  return entry;
}

void StampTable::give_back(const Entry& entry) {
  __atomic_store_n(word(entry.slot), uint64_t{0}, __ATOMIC_RELAXED);
  // The zero is visible before anything that the owner does to the memory afterwards: pairs with
  // the readers' acquire fence between the data and the stamp.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  free_.push_back(entry.slot);
}

bool StampTable::holds(const Entry& entry) const {
  return entry.stamp != 0 && entry.slot < kStampSlots &&
         __atomic_load_n(word(entry.slot), __ATOMIC_RELAXED) == entry.stamp;
}

}  // namespace wb
