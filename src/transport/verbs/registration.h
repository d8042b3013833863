// Memory of this process as the NICs know it: one registration per slice and rail.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "memory/allocation.h"
#include "transport/verbs/rail.h"

namespace wb::verbs {

enum class Right : uint8_t {
  kRemoteRead,  // peers READ it; nobody writes it
  kLocalWrite,  // READs of this process land in it; no remote right at all
};

class Registration {
 public:
  // `strict`: never relaxed ordering (headers, stamps).
  static Result<std::shared_ptr<const Registration>> make(
      const std::vector<std::shared_ptr<Rail>>& rails, std::shared_ptr<Allocation> memory,
      Right right, bool strict, const VerbsOptions& options);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  const std::shared_ptr<Allocation>& memory() const { return memory_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_->data()); }
  uint64_t bytes() const { return memory_->bytes(); }
  uint64_t slice_bytes() const { return slice_bytes_; }
  size_t slices() const { return slices_; }
  uint32_t lkey(size_t rail, size_t slice) const { return regions_[rail][slice]->lkey; }
  uint32_t rkey(size_t rail, size_t slice) const { return regions_[rail][slice]->rkey; }

 private:
  Registration(std::vector<std::shared_ptr<Rail>> rails, std::shared_ptr<Allocation> memory)
      : rails_(std::move(rails)), memory_(std::move(memory)) {}
  Status register_on(size_t rail, Right right, bool relaxed);

  const std::vector<std::shared_ptr<Rail>> rails_;
  std::shared_ptr<Allocation> memory_;
  uint64_t slice_bytes_ = 0;
  size_t slices_ = 0;
  std::vector<std::vector<ibv_mr*>> regions_;  // [rail][slice]
};

// Stays registered until the process ends: a NIC that cannot be stopped may still write to it.
void keep_for_good(std::shared_ptr<const Registration> registration);

// Bytes per slice: at most `wanted` and what every device takes, whole pages.
uint64_t slice_bytes_for(uint64_t bytes, uint64_t wanted, std::span<const uint64_t> device_most);

}  // namespace wb::verbs
