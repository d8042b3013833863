#include "cli/fill.h"

#include <cstring>

#include "cli/change_rule.h"
#include "layout/dtype.h"

namespace wb::cli {
namespace {

// One piece: walks the box's rows and writes each.
class PieceFill {
 public:
  PieceFill(const TensorInfo& tensor, std::span<const std::byte> from, const Piece& piece,
            std::byte* to, uint64_t version, Values values)
      : rule_(tensor.name, version),
        piece_(piece),
        shape_(tensor.unit_shape()),
        width_(dtype_info(tensor.dtype).unit_bytes),
        from_(from),
        to_(to),
        values_(values) {}

  void run() { walk(0, 0, piece_.offset); }

 private:
  // `index`: the row-major index in the tensor of the dimensions before `d`.
  void walk(int d, uint64_t index, int64_t offset) {
    const int rank = piece_.box.rank();
    if (d == rank) return write(index, offset, 1);
    const Progression& p = piece_.box.dim(d);
    const auto extent = static_cast<uint64_t>(shape_[static_cast<size_t>(d)]);
    const int64_t stride = piece_.stride[static_cast<size_t>(d)];
    if (d == rank - 1 && p.step == 1 && stride == static_cast<int64_t>(width_)) {
      return write(index * extent + static_cast<uint64_t>(p.start), offset,
                   static_cast<uint64_t>(p.count));
    }
    for (int64_t i = 0; i < p.count; ++i) {
      walk(d + 1, index * extent + static_cast<uint64_t>(p.start + i * p.step),
           offset + i * stride);
    }
  }
  void write(uint64_t index, int64_t offset, uint64_t count) {
    const std::byte* in = from_.data() + index * width_;
    if (values_ == Values::kCheckpoint) {
      std::memcpy(to_ + offset, in, static_cast<size_t>(count * width_));
    } else {
      rule_.apply(to_ + offset, in, index, count, width_);
    }
  }

  const ChangeRule rule_;
  const Piece& piece_;
  const std::vector<int64_t> shape_;
  const uint32_t width_;
  const std::span<const std::byte> from_;
  std::byte* const to_;
  const Values values_;
};

}  // namespace

void fill(const CheckpointMap& checkpoint, const WorkerLayout& layout,
          std::span<std::byte* const> buffers, uint64_t version, Values values) {
  for (const Piece& piece : layout.pieces) {
    PieceFill(checkpoint.table()[piece.tensor], checkpoint.tensor(piece.tensor), piece,
              buffers[piece.buffer], version, values)
        .run();
  }
}

}  // namespace wb::cli
