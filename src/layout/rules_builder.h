// Builds a worker layout buffer by buffer, from ranges of checkpoint tensors.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"

namespace wb {

// [first, first + count) of one dimension of a tensor; the other dimensions whole.
struct Slice {
  int dim = 0;
  int64_t first = 0;
  int64_t count = 0;
};

class LayoutBuilder {
 public:
  explicit LayoutBuilder(const TensorTable& table) : table_(table) {}

  const TensorInfo& tensor(uint32_t index) const { return table_[index]; }

  // Starts a dense buffer; what follows goes there.
  Status open(std::string name, DType dtype, std::vector<int64_t> shape);

  // Places a slice so that its first element is at index `at` of the buffer. The tensor's
  // dimensions are the buffer's last ones. An empty slice places nothing.
  Status place(uint32_t tensor, const Slice& slice, std::initializer_list<int64_t> at);

  // Places units [first, first + count) of the row-major flattened tensor, contiguous from
  // `unit_at` of the buffer on: up to 2 * rank - 1 pieces.
  Status place_flat(uint32_t tensor, int64_t first, int64_t count, int64_t unit_at);

  // Names rows [first, first + count) of the buffer as held without a tensor. Dimension 0 only.
  void pad_rows(int64_t first, int64_t count, ExtraKind kind);
  // The same for units of a flat buffer.
  void pad_units(int64_t first, int64_t count, ExtraKind kind);

  WorkerLayout take() { return std::move(layout_); }

 private:
  void add_piece(uint32_t tensor, const Box& box, int64_t offset, std::span<const int64_t> strides);
  void add_extra(uint64_t offset, uint64_t bytes, ExtraKind kind);

  const TensorTable& table_;
  WorkerLayout layout_;
  const DTypeInfo* dtype_ = nullptr;  // of the open buffer
  std::vector<int64_t> strides_;      // of the open buffer, in bytes, row-major, per unit
};

}  // namespace wb
