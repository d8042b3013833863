// One side of a fleet, looked up by tensor: which layouts have pieces of it, and which tensors are
// cut alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.h"
#include "layout/side.h"

namespace wb {

// Borrows the side.
class SideIndex {
 public:
  // `members` are the workers in canonical order.
  SideIndex(const Side& side, std::span<const SideMember> members, size_t tensors);

  // Indices of the pieces of `tensor` in a family's base layout, in the order of their boxes.
  std::span<const uint32_t> pieces_of(uint32_t family, uint32_t tensor) const;
  // The same; `hint` is where the last tensor of the family was found, and is moved.
  std::span<const uint32_t> pieces_near(uint32_t family, uint32_t tensor, size_t* hint) const;

  // The pieces of one family that are of one tensor.
  struct Group {
    uint32_t family = 0;
    std::span<const uint32_t> pieces;
  };
  // Calls visit(Group) for each family that has some of `tensor`, in the order of the families'
  // first workers.
  template <typename Visit>
  void for_each_group(uint32_t tensor, Visit visit) const {
    for (size_t g = group_of_[tensor]; g < group_of_[tensor + 1]; ++g) {
      const uint32_t family = groups_[g];
      visit(Group{family, pieces_of(family, tensor)});
    }
  }

  // Equal for tensors whose boxes on this side are the same and belong to the same workers.
  const Digest& tiling(uint32_t tensor) const { return tilings_[tensor]; }

  struct Worker {
    uint32_t worker = 0;  // canonical index
    int64_t index = 0;    // in the family
  };
  std::span<const Worker> workers_of(uint32_t family) const { return workers_[family]; }
  const LayoutFamily& family(uint32_t f) const { return side_.families[f]; }
  size_t family_count() const { return side_.families.size(); }

 private:
  struct Pieces {
    std::vector<uint32_t> tensors;  // that the family has pieces of, ascending
    std::vector<uint32_t> first;    // parallel, and one more: into order
    std::vector<uint32_t> order;    // piece indices
  };
  void sort_pieces(uint32_t family);
  void hash_tilings(const std::vector<uint32_t>& rank);

  const Side& side_;
  std::vector<Pieces> pieces_;                // by family
  std::vector<std::vector<Worker>> workers_;  // by family
  std::vector<size_t> group_of_;              // by tensor, and one more: into groups_
  std::vector<uint32_t> groups_;              // families
  std::vector<Digest> tilings_;               // by tensor
};

}  // namespace wb
