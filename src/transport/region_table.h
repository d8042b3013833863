// The regions that a domain has registered, whatever its transport.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "memory/allocation.h"
#include "memory/mapped.h"
#include "transport/transport.h"

namespace wb {

// What must hold of memory before a transport registers it.
inline Status check_registrable(const Allocation* memory, Access access) {
  if (memory == nullptr) return Status(Code::kInvalidArgument, "registering no memory");
  if (memory->kind() != MemoryKind::kCaller) return Status();
  return check_mapped(memory->data(), memory->bytes(), access == Access::kLocalTarget);
}

// Only what peers may read has a key.
inline Status check_exportable(RegionId region, Access access) {
  if (access == Access::kRemoteRead) return Status();
  return Status(Code::kInvalidArgument,
                "region " + std::to_string(region) + " is not registered for remote reads");
}

// Not thread-safe: the domain's lock guards it, together with what belongs to the regions.
template <typename Region>
class RegionTable {
 public:
  // Ids are never given out twice.
  RegionId add(std::shared_ptr<Region> region) {
    regions_.emplace(next_, std::move(region));
    return next_++;
  }
  Result<std::shared_ptr<Region>> find(RegionId region) const {
    const auto found = regions_.find(region);
    if (found == regions_.end()) return unknown(region);
    return found->second;
  }
  // No longer in the table.
  Result<std::shared_ptr<Region>> remove(RegionId region) {
    const auto found = regions_.find(region);
    if (found == regions_.end()) return unknown(region);
    std::shared_ptr<Region> out = std::move(found->second);
    regions_.erase(found);
    return out;
  }
  void clear() { regions_.clear(); }

  auto begin() const { return regions_.begin(); }
  auto end() const { return regions_.end(); }

 private:
  static Status unknown(RegionId region) {
    return Status(Code::kNotFound, "region " + std::to_string(region) + " is not registered");
  }

  std::map<RegionId, std::shared_ptr<Region>> regions_;
  RegionId next_ = 1;
};

}  // namespace wb
