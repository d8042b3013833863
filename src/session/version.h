// Which version of the weights: the trainer's number inside one generation of trainer ranks.
#pragma once

#include <compare>
#include <cstdint>

namespace wb {

struct Version {
  uint64_t generation = 0;
  uint64_t number = 0;
  auto operator<=>(const Version&) const = default;  // generation first
};

}  // namespace wb
