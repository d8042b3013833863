// What a Prober keeps of its buffers.
#pragma once

#include <optional>
#include <vector>

#include "probe/prober.h"

namespace wb::probe {

// A buffer as it was added.
struct Prober::Given {
  BufferInfo info;
  std::byte* data = nullptr;
  bool gone = false;  // moved or dropped by its owner: its memory is not looked at any more
};

// A piece that is not proved yet.
struct Prober::Claim {
  Piece piece;
  bool cast = false;  // the buffer has another dtype than the tensor
  bool false_claim = false;
};

// A buffer of the layout: one that lies in no other.
struct Prober::Target {
  size_t given = 0;
  DType dtype = DType::kU8;
  Family family = Family::kByte;
  uint32_t element = 1;   // bytes
  uint64_t elements = 0;  // whole ones
  std::byte* data = nullptr;
  std::vector<std::vector<Segment>> planes;  // until the claims are made
  std::vector<Claim> claims;
  std::optional<Leftovers> left;
  uint64_t aside = 0;  // place of the leftovers in the backup (Restore::kReload)
  // By values B and C: computed, by a function that left values A alone.
  std::vector<ElementRange> refuted;
  uint64_t refuted_digest = 0;  // of their bytes after the first load of C

  uint64_t digest_refuted() const;
  uint64_t bytes() const { return elements * element; }
  uint64_t memory() const;
};

}  // namespace wb::probe
