#include "capi/handle.h"

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace wb::capi {
namespace {

static_assert(sizeof(void*) == 8, "a handle packs kind, generation and slot into 64 bits");

constexpr uint32_t kSlotBits = 20;
constexpr uint32_t kChunkSlots = 256;
constexpr uint32_t kChunks = (1u << kSlotBits) / kChunkSlots;

struct Slot {
  std::mutex mutex;
  std::shared_ptr<void> object;
  Kind kind{};
  uint32_t generation = 1;  // of the current or next object; counts up when one leaves
};

using Chunk = std::array<Slot, kChunkSlots>;

// Chunks are never freed, so a slot can be read without the table's lock.
struct Table {
  std::array<std::atomic<Chunk*>, kChunks> chunks{};
  std::mutex mutex;  // guards what follows
  std::vector<uint32_t> free;
  uint32_t used = 0;

  Slot* slot(uint32_t index) {
    Chunk* const chunk = chunks[index / kChunkSlots].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &(*chunk)[index % kChunkSlots];
  }
};

// Never destroyed: threads of the program may still call during its exit.
Table& table() {
  static auto* const instance = new Table;
  return *instance;
}

// A kind in the top byte makes the value a non-canonical address on every 64-bit machine that has
// fewer than 57 address bits: using it as a pointer faults at once.
void* pack(Kind kind, uint32_t generation, uint32_t index) {
  const uint64_t bits =
      (static_cast<uint64_t>(kind) << 56) | (static_cast<uint64_t>(generation) << 24) | index;
  return reinterpret_cast<void*>(bits);  // NOLINT(performance-no-int-to-ptr)
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::kJob:
      return "job";
    case Kind::kTable:
      return "table";
    case Kind::kLayout:
      return "layout";
    case Kind::kPublisher:
      return "publisher";
    case Kind::kReceiver:
      return "receiver";
    case Kind::kProbe:
      return "probe";
  }
  return "object";
}

Status refuse(Kind kind, const char* why) {
  return Status(Code::kInvalidArgument, std::string("the ") + kind_name(kind) + " handle " + why);
}

struct Locked {
  Slot* slot;
  std::unique_lock<std::mutex> lock;
};

Result<Locked> lock_slot(Kind kind, const void* handle) {
  if (handle == nullptr) return refuse(kind, "is NULL");
  const auto bits = reinterpret_cast<uint64_t>(handle);
  if (bits >> 56 != static_cast<uint64_t>(kind)) return refuse(kind, "is of another type");
  const auto index = static_cast<uint32_t>(bits & 0xffffff);
  Slot* const slot = index >> kSlotBits != 0 ? nullptr : table().slot(index);
  if (slot == nullptr) return refuse(kind, "was never given out");
  std::unique_lock lock(slot->mutex);
  const bool live = slot->object != nullptr && slot->kind == kind &&
                    slot->generation == static_cast<uint32_t>(bits >> 24);
  if (!live) return refuse(kind, "was closed");
  return Locked{slot, std::move(lock)};
}

// A free slot's index; makes sure that giving it back needs no memory.
Result<uint32_t> take_slot() {
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  if (!all.free.empty()) {
    const uint32_t index = all.free.back();
    all.free.pop_back();
    return index;
  }
  if (all.used == kChunks * kChunkSlots) {
    return Status(Code::kNoMemory, "a million handles are open: some are never closed");
  }
  if (all.used % kChunkSlots == 0) {
    all.free.reserve(all.used + kChunkSlots);
    all.chunks[all.used / kChunkSlots].store(new Chunk, std::memory_order_release);
  }
  return all.used++;
}

}  // namespace

Result<void*> insert_handle(Kind kind, std::shared_ptr<void> object) {
  WB_ASSIGN_OR_RETURN(const uint32_t index, take_slot());
  Slot* const slot = table().slot(index);
  const std::lock_guard lock(slot->mutex);
  slot->object = std::move(object);
  slot->kind = kind;
  return pack(kind, slot->generation, index);
}

Result<std::shared_ptr<void>> find_handle(Kind kind, const void* handle) {
  WB_ASSIGN_OR_RETURN(const Locked locked, lock_slot(kind, handle));
  return locked.slot->object;
}

Result<std::shared_ptr<void>> remove_handle(Kind kind, const void* handle) {
  std::shared_ptr<void> object;
  {
    WB_ASSIGN_OR_RETURN(const Locked locked, lock_slot(kind, handle));
    object = std::move(locked.slot->object);
    locked.slot->object = nullptr;
    ++locked.slot->generation;
  }
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  all.free.push_back(static_cast<uint32_t>(reinterpret_cast<uint64_t>(handle) & 0xffffff));
  return object;
}

}  // namespace wb::capi
