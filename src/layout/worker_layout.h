// What one worker holds or needs: buffers, and the pieces of checkpoint tensors inside them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "layout/box.h"
#include "layout/tensor_table.h"

namespace wb {

// One of the worker's own parameters or buffers: a dense row-major array under the worker's own
// name.
struct BufferInfo {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<int64_t> shape;  // in elements
  uint64_t bytes = 0;          // of the array; >= what dtype and shape need
};

// A box of a checkpoint tensor bound to a buffer. The element with index (i0, i1, ...) inside the
// box (not its checkpoint coordinate) lies at byte offset + sum(i_d * stride[d]) of the buffer, and
// takes unit_bytes of the tensor's dtype. Strides are in bytes and may be negative or zero (zero
// only for a source: one stored element that stands for several coordinates).
struct Piece {
  uint32_t tensor = 0;  // index into the tensor table
  uint32_t buffer = 0;  // index into WorkerLayout::buffers
  Box box;              // in units of the tensor (see dtype.h)
  int64_t offset = 0;
  std::array<int64_t, kMaxRank> stride{};
  bool operator==(const Piece&) const = default;
};

// Bytes of a buffer that no piece covers, by name.
enum class ExtraKind : uint8_t {
  kUnmapped = 1,  // not in the checkpoint: kept as it is
  kZeroFill = 2,  // padding: set to zero at each pull
  kComputed = 3,  // derived from weights by the engine: needs the engine's finaliser after a pull
};

struct Extra {
  uint32_t buffer = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  ExtraKind kind = ExtraKind::kUnmapped;
  std::string name;
};

struct WorkerLayout {
  std::vector<BufferInfo> buffers;
  std::vector<Piece> pieces;
  std::vector<Extra> extras;

  // Bytes of all pieces (what a receiver needs).
  uint64_t piece_bytes(const TensorTable& table) const;
};

enum class LayoutRole { kSource, kReceiver };

// Names are valid UTF-8, every piece is inside its tensor and its buffer and of the buffer's type
// (or in a buffer of plain bytes, U8), extras inside their buffers and (for a receiver) no byte of
// a buffer written twice: by two pieces, by one piece whose strides fold over themselves, or by a
// piece and a zero-filled extra. Names the buffer, the tensors and the byte of the first fault.
Status check_layout(const TensorTable& table, const WorkerLayout& layout, LayoutRole role);

// Digest of the whole mapping: table, buffers (names, dtypes, shapes, sizes), pieces, extras. Two
// workers with the same names and shapes but other contents have other digests.
Digest layout_digest(const TensorTable& table, const WorkerLayout& layout);
// What a digest of layouts takes of one buffer or extra.
void add_to(Hasher* hasher, const BufferInfo& buffer);
void add_to(Hasher* hasher, const Extra& extra);

}  // namespace wb
