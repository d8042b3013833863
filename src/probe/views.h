// Probe tensors: what each checkpoint tensor holds in one pass, as strided views of small arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status.h"
#include "probe/schema.h"

namespace wb::probe {

// Element (i0, i1, ...) lies at data + sum(i_d * stride[d]). Strides are bytes.
struct View {
  const std::byte* data = nullptr;
  std::array<int64_t, kMaxRank> stride{};
};

// The arrays of one pass. They stay where they are until the object ends.
class PassViews {
 public:
  virtual ~PassViews() = default;
  // Tensor `index` of the table.
  virtual View view(uint32_t index) const = 0;
  virtual uint64_t bytes() const = 0;
};

// An index plane: in each tensor one dimension advances, the others have stride 0.
class IndexViews : public PassViews {
 public:
  static Result<std::unique_ptr<IndexViews>> make(const TensorTable& table, const Schema& schema,
                                                  int plane, uint64_t max_bytes);
  View view(uint32_t index) const override { return views_[index]; }
  uint64_t bytes() const override { return bytes_; }

 private:
  using Array = std::vector<std::byte>;
  // type, length, weight: the digits of that weight of 0, 1, 2, ...
  std::map<std::tuple<DType, int64_t, int64_t>, Array> ramps_;
  std::map<DType, Array> digits_;  // every digit once, for tensors that have one in all elements
  std::vector<View> views_;
  uint64_t bytes_ = 0;
};

// Random values that depend on the tensor and all coordinates: element (i0, i1, ...) is element
// start(tensor) + sum(i_d * pace_d) of one random sequence. The paces differ from round to round.
class ValueViews : public PassViews {
 public:
  static Result<std::unique_ptr<ValueViews>> make(const TensorTable& table, const Schema& schema,
                                                  unsigned round, uint64_t seed,
                                                  uint64_t max_bytes);
  View view(uint32_t index) const override;
  // The values of the tensor cast to another type of its family, for which they were prepared.
  View view_as(uint32_t index, DType dtype) const;
  // Makes the values of all tensors of that family in one more type. Not while others read.
  void prepare(DType dtype);
  uint64_t bytes() const override;

 private:
  void prepare(DType source, DType dtype);

  const TensorTable* table_ = nullptr;
  const Schema* schema_ = nullptr;
  unsigned round_ = 0;
  uint64_t seed_ = 0;
  int64_t length_ = 0;
  std::vector<DType> types_;  // of the table
  // The sequence of tensors of the first type, cast to the second.
  std::map<std::pair<DType, DType>, std::vector<std::byte>> sequence_;
};

}  // namespace wb::probe
