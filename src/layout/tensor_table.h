// The tensor table: all checkpoint tensors of a model, the common coordinates of both sides.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "layout/box.h"
#include "layout/dtype.h"

namespace wb {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<int64_t> shape;  // in elements; may be empty (a scalar) or hold zeros (no bytes)

  // Shape in units (see dtype.h): the last dimension divided by unit_elements.
  std::vector<int64_t> unit_shape() const;
  uint64_t bytes() const;
};

class TensorTable {
 public:
  // Sorts by name. kInvalidArgument: a name that is empty, twice there or not UTF-8, more than
  // kMaxRank dimensions, a negative dimension, a size over 2^62 bytes; kUnsupported: a sub-byte
  // type whose last dimension is not a whole number of units.
  static Result<TensorTable> make(std::vector<TensorInfo> tensors);

  TensorTable() = default;
  size_t size() const { return tensors_.size(); }
  const TensorInfo& operator[](uint32_t index) const { return tensors_[index]; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // Index by binary search, or kNotFound with the name as a fact.
  Result<uint32_t> find(std::string_view name) const;
  uint64_t bytes() const { return bytes_; }
  // Equal exactly when names, dtypes and shapes are.
  const Digest& digest() const { return digest_; }

 private:
  std::vector<TensorInfo> tensors_;
  uint64_t bytes_ = 0;
  Digest digest_;
};

}  // namespace wb
