// One word per registered region, in memory that readers can map or read: which registration holds
// the slot now. A region's memory may be freed and reused the moment it is deregistered, while a
// reader still copies from its address; the stamp, looked at after the data, tells.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "memory/allocation.h"

namespace wb {

// Layout: two words of incarnation, then the stamps. 0: the slot is free.
constexpr uint32_t kIncarnationWords = 2;
constexpr uint32_t kStampSlots = 8190;
constexpr uint64_t kStampTableBytes = (kIncarnationWords + kStampSlots) * sizeof(uint64_t);
static_assert(kStampTableBytes == 64u << 10);

constexpr uint64_t stamp_offset(uint32_t slot) {
  return (kIncarnationWords + uint64_t{slot}) * sizeof(uint64_t);
}

// Used by one thread at a time; readers look on from other processes.
class StampTable {
 public:
  static Result<StampTable> make(const Digest& incarnation);

  struct Entry {
    uint32_t slot = 0;
    uint64_t stamp = 0;
  };
  Result<Entry> take();
  // After it returns, no reader that looks at the stamp accepts bytes read from then on.
  void give_back(const Entry& entry);
  bool holds(const Entry& entry) const;

  const std::shared_ptr<Allocation>& memory() const { return memory_; }

 private:
  explicit StampTable(std::shared_ptr<Allocation> memory);
  uint64_t* word(uint32_t slot) const;

  std::shared_ptr<Allocation> memory_;
  std::vector<uint32_t> free_;
  uint64_t next_stamp_ = 1;  // never used twice in one incarnation
};

}  // namespace wb
