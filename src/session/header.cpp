#include "session/header.h"

#include <algorithm>
#include <atomic>

#include "base/checked.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace wb {
namespace {

// Word indices of a header.
enum : size_t {
  kEpoch = 0,
  kGeneration = 1,
  kNumber = 2,
  kMappingLow = 3,
  kMappingHigh = 4,
  kIncarnationLow = 5,
  kIncarnationHigh = 6,
  kReserved = 7,  // zero; a reader of this version refuses anything else
};
static_assert(kReserved + 1 == kHeaderWords);
static_assert(std::atomic_ref<uint64_t>::is_always_lock_free, "words are shared with devices");

// Odd, and larger than any epoch that counting can reach.
constexpr uint64_t kClosedEpoch = ~uint64_t{0};
static_assert(kClosedEpoch % 2 == 1);

constexpr bool odd(uint64_t epoch) { return epoch % 2 == 1; }

// All earlier stores are visible, to CPUs and devices, before any later one; non-temporal ones
// too. Fences A and B of header.h.
inline void store_fence() {
  std::atomic_thread_fence(std::memory_order_release);  // for the compiler, and other machines
#if defined(__x86_64__)
  _mm_sfence();
#elif defined(__aarch64__)
  __asm__ volatile("dmb osh" ::: "memory");
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

inline uint64_t load(const uint64_t* words, size_t index) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t*>(words)[index])
      .load(std::memory_order_relaxed);
}
inline void store(uint64_t* words, size_t index, uint64_t value, std::memory_order order) {
  std::atomic_ref<uint64_t>(words[index]).store(value, order);
}

}  // namespace

std::optional<Version> held_version(const HeaderWords& header, const HeaderExpectation& expected) {
  if (odd(header[kEpoch]) || header[kEpoch] == 0) return std::nullopt;
  if (header[kGeneration] != expected.generation) return std::nullopt;
  if (header[kMappingLow] != expected.mapping.low || header[kMappingHigh] != expected.mapping.high)
    return std::nullopt;
  if (header[kIncarnationLow] != expected.incarnation.low ||
      header[kIncarnationHigh] != expected.incarnation.high)
    return std::nullopt;
  if (header[kReserved] != 0) return std::nullopt;
  return Version{header[kGeneration], header[kNumber]};
}

bool is_closed(const HeaderWords& header) { return header[kEpoch] == kClosedEpoch; }

bool unchanged(const HeaderWords& first, const HeaderWords& second) {
  return first == second && !odd(first[kEpoch]);
}

HeaderWords DirectoryView::header(uint32_t slot) const {
  HeaderWords header;
  std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(slot * kHeaderWords), kHeaderWords,
              header.begin());
  return header;
}

Result<HeaderDirectory> HeaderDirectory::create(uint32_t slots, const Digest& mapping,
                                                const Digest& incarnation) {
  constexpr uint64_t kPage = 4096;
  AllocationOptions options;
  options.name = "weightbridge-headers";
  WB_ASSIGN_OR_RETURN(auto memory,
                      Allocation::shared(round_up(slots * uint64_t{kHeaderBytes}, kPage), options));
  HeaderDirectory directory(std::move(memory), slots);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    uint64_t* const words = directory.words(slot);
    store(words, kEpoch, 1, std::memory_order_relaxed);
    store(words, kMappingLow, mapping.low, std::memory_order_relaxed);
    store(words, kMappingHigh, mapping.high, std::memory_order_relaxed);
    store(words, kIncarnationLow, incarnation.low, std::memory_order_relaxed);
    store(words, kIncarnationHigh, incarnation.high, std::memory_order_relaxed);
  }
  store_fence();
  return directory;
}

uint64_t* HeaderDirectory::words(uint32_t slot) const {
  // The allocation is page-aligned, so every header is one aligned cache line.
  return reinterpret_cast<uint64_t*>(memory_->data()) + slot * kHeaderWords;
}

bool HeaderDirectory::changing(uint32_t slot) const { return odd(load(words(slot), kEpoch)); }

void HeaderDirectory::begin_change(uint32_t slot) {
  const uint64_t epoch = load(words(slot), kEpoch);
  if (!odd(epoch)) store(words(slot), kEpoch, epoch + 1, std::memory_order_relaxed);
  store_fence();
}

void HeaderDirectory::end_change(uint32_t slot, const Version& version) {
  uint64_t* const header = words(slot);
  const uint64_t epoch = load(header, kEpoch);
  if (epoch == kClosedEpoch || !odd(epoch)) return;
  store_fence();
  store(header, kGeneration, version.generation, std::memory_order_relaxed);
  store(header, kNumber, version.number, std::memory_order_relaxed);
  store(header, kEpoch, epoch + 1, std::memory_order_release);
}

void HeaderDirectory::close() {
  for (uint32_t slot = 0; slot < slots_; ++slot)
    store(words(slot), kEpoch, kClosedEpoch, std::memory_order_relaxed);
  store_fence();
}

}  // namespace wb
