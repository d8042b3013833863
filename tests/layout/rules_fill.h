// Fills a worker's buffers, element by element, with where each comes from: the plain reading of
// what a layout says, used to compare layouts with oracles.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layout/dtype.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"

namespace wb::testing {

inline constexpr int64_t kUnmappedCell = -1;
inline constexpr int64_t kZeroCell = -2;
inline constexpr int64_t kNothingCell = -3;

// A cell is one unit: tensor << 40 | index of the unit in the flattened tensor, or one of the
// above.
using Cells = std::vector<std::vector<int64_t>>;  // per buffer

// Nothing when a piece or an extra leaves its buffer, is not aligned to units, or two of them meet;
// `fault` then says which.
inline std::optional<Cells> fill_cells(const TensorTable& table, const WorkerLayout& layout,
                                       std::string* fault) {
  Cells cells;
  for (const BufferInfo& buffer : layout.buffers) {
    cells.emplace_back(buffer.bytes / dtype_info(buffer.dtype).unit_bytes, kNothingCell);
  }
  const auto put = [&](uint32_t buffer, int64_t byte, int64_t value) {
    const auto unit = static_cast<int64_t>(dtype_info(layout.buffers[buffer].dtype).unit_bytes);
    std::vector<int64_t>& target = cells[buffer];
    if (byte < 0 || byte % unit != 0 || byte / unit >= static_cast<int64_t>(target.size())) {
      *fault = layout.buffers[buffer].name + ": byte " + std::to_string(byte) + " is outside";
      return false;
    }
    int64_t& cell = target[static_cast<size_t>(byte / unit)];
    if (cell != kNothingCell) {
      *fault = layout.buffers[buffer].name + ": byte " + std::to_string(byte) + " is there twice";
      return false;
    }
    cell = value;
    return true;
  };
  for (const Piece& piece : layout.pieces) {
    const std::vector<int64_t> shape = table[piece.tensor].unit_shape();
    std::vector<int64_t> at(static_cast<size_t>(piece.box.rank()), 0);
    for (int64_t n = piece.box.size(); n > 0; --n) {
      int64_t byte = piece.offset;
      int64_t index = 0;
      for (size_t d = 0; d < at.size(); ++d) {
        const Progression& p = piece.box.dim(static_cast<int>(d));
        byte += at[d] * piece.stride[d];
        index = index * shape[d] + p.start + at[d] * p.step;
      }
      if (!put(piece.buffer, byte, static_cast<int64_t>(piece.tensor) << 40 | index)) {
        return std::nullopt;
      }
      for (size_t d = at.size(); d-- > 0;) {
        if (++at[d] < piece.box.dim(static_cast<int>(d)).count) break;
        at[d] = 0;
      }
    }
  }
  for (const Extra& extra : layout.extras) {
    const uint32_t unit = dtype_info(layout.buffers[extra.buffer].dtype).unit_bytes;
    const int64_t value = extra.kind == ExtraKind::kZeroFill ? kZeroCell : kUnmappedCell;
    for (uint64_t byte = extra.offset; byte < extra.offset + extra.bytes; byte += unit) {
      if (!put(extra.buffer, static_cast<int64_t>(byte), value)) return std::nullopt;
    }
  }
  return cells;
}

}  // namespace wb::testing
