// The proof's view of a layout: each piece as an interval of a region, found by address. Knows
// nothing of the planner and computes from the numbers of pieces alone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "plan/plan.h"

namespace wb::proof {

// One piece in memory.
struct Home {
  const Piece* piece = nullptr;
  uint32_t region = 0;
  uint32_t unit = 0;   // bytes of one element
  int64_t origin = 0;  // region offset of the piece's first element
  uint64_t begin = 0;  // the piece's bytes lie in [begin, end) of the region
  uint64_t end = 0;
  uint64_t reach = 0;  // largest end among this home and those before it in its group
};

// Homes in groups (all of one region; or of one region and tensor), sorted by begin.
class Homes {
 public:
  enum class Group { kRegion, kRegionAndTensor };

  // kUnproven when a piece is not inside its tensor, its buffer or the buffer's region.
  static Result<Homes> make(const TensorTable& table, const PlanWorker& worker, Group group);

  // Calls visit(home) for each home of the group whose interval holds `address`, until visit
  // returns true. Returns whether one did. `tensor` is ignored when homes are grouped by region.
  template <typename Visit>
  bool find(uint32_t region, uint32_t tensor, uint64_t address, Visit visit) const {
    for (size_t i = after(region, tensor, address); i > 0; --i) {
      const Home& home = homes_[i - 1];
      if (!same_group(home, region, tensor) || home.reach <= address) return false;
      if (address < home.end && visit(home)) return true;
    }
    return false;
  }

 private:
  bool same_group(const Home& home, uint32_t region, uint32_t tensor) const {
    return home.region == region && (group_ == Group::kRegion || home.piece->tensor == tensor);
  }
  // Index behind the last home of the group with begin <= address.
  size_t after(uint32_t region, uint32_t tensor, uint64_t address) const;

  Group group_ = Group::kRegion;
  std::vector<Home> homes_;
};

// Indices of one element inside its piece's box, and the byte inside the element.
struct Place {
  std::array<int64_t, kMaxRank> index{};
  uint64_t byte = 0;
};

// Reads a home's memory: address -> element. For homes without zero strides.
class Decoder {
 public:
  // The dimensions that have more than one element, narrowest stride first.
  struct Dim {
    int d = 0;
    int64_t count = 0;
    int64_t stride = 0;  // as in the piece
    uint64_t width = 0;  // |stride|
    uint64_t below = 0;  // bytes spanned by an element and all narrower dimensions
  };

  Decoder() = default;
  explicit Decoder(const Home& home);

  const Home& home() const { return home_; }
  std::span<const Dim> dims() const { return {dims_.data(), static_cast<size_t>(size_)}; }

  // The element that has a byte at `address`, or false when the piece skips that byte.
  bool decode(uint64_t address, Place* place) const;

 private:
  Dim& at(int i) { return dims_[static_cast<size_t>(i)]; }
  bool decode_level(int level, uint64_t rest, Place* place) const;

  Home home_;
  int size_ = 0;
  std::array<Dim, kMaxRank> dims_{};
};

}  // namespace wb::proof
