// Tensors and pieces as the C ABI words them (elements, optional arrays) to the layout room's own
// (units, checked boxes).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "weightbridge/weightbridge.h"

namespace wb::capi {

// Checks dtype and rank and reads the shape; name and dimensions are the tensor table's to check.
Result<TensorInfo> tensor_info(const char* name, wb_dtype dtype, uint32_t rank,
                               const int64_t* shape);

// Nothing for the whole of a tensor that has no elements. The buffer's index is not checked.
Result<std::optional<Piece>> make_piece(const TensorTable& table, const wb_piece& given);

// A piece as the C ABI shows it; its arrays belong to the view.
class PieceView {
 public:
  wb_piece show(const TensorInfo& tensor, const Piece& piece);

 private:
  std::string tensor_;
  std::array<int64_t, kMaxRank> start_{}, count_{}, step_{}, stride_{};
};

}  // namespace wb::capi
