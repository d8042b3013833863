// Pieces as a row of LEB128 numbers. Per piece: tensor and buffer (as difference to the piece
// before), rank, offset, then start, count, step and stride of each dimension. What may be negative
// is zigzag-coded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "layout/worker_layout.h"

namespace wb {

std::vector<uint8_t> encode_pieces(const std::vector<Piece>& pieces);

// kBadData: truncated, too long, a number out of range, or a box that is none.
Result<std::vector<Piece>> decode_pieces(std::span<const uint8_t> words, uint32_t count);

}  // namespace wb
