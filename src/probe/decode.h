// Puts the digits of all planes of one buffer together again: which checkpoint element each element
// of the buffer claims to be.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "probe/nest.h"
#include "probe/runs.h"
#include "probe/schema.h"

namespace wb::probe {

struct TensorNests {
  uint32_t tensor = 0;  // index into the table
  std::vector<Nest> nests;
};

// `planes`: the segments of each plane of the buffer, all of the same number of digits. What is no
// index of the family is left out. Elements that claim an index by chance are in the result too:
// only a comparison with other values tells.
std::vector<TensorNests> decode(const Schema& schema, Family family, const BlockStore& blocks,
                                std::span<const std::vector<Segment>> planes);

}  // namespace wb::probe
