// Which digit of which number each tensor carries in each index plane.
//
// Planes come in this order: the digits of the tensor's number in its family, then those of its
// coordinates, dimension by dimension, lowest digit first. A tensor that needs fewer planes than
// others repeats a number made of its own in what is left.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "layout/tensor_table.h"
#include "probe/alphabet.h"

namespace wb::probe {

inline constexpr int kMaxIndexBits = 48;

// A checkpoint tensor as it is probed: of F4 and F6 the bytes, of all others the elements.
struct ProbedTensor {
  uint32_t number = 0;  // in its family
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{};
  std::array<uint8_t, kMaxRank> digits{};  // planes per dimension
  Family family = Family::kByte;
  bool empty = false;  // no elements
};

// What a tensor carries in one plane.
struct PlaneField {
  int dim = 0;         // kNumber, kSpare or a dimension
  int64_t weight = 1;  // the digit counts base^k

  static constexpr int kNumber = -1;
  static constexpr int kSpare = -2;
};

class Schema {
 public:
  // `half`: whether F16 occurs in the table or in the buffers. kUnsupported when the elements of
  // all tensors need more than kMaxIndexBits bits to be numbered.
  static Result<Schema> make(const TensorTable& table, bool half);

  Schema() = default;
  bool half() const { return half_; }
  int planes() const { return planes_; }
  uint16_t base(Family family) const { return index_base(family, half_); }
  // Added to every digit of a plane, modulo the base, so that no value is the same digit in all.
  uint16_t mask(int plane, Family family) const;
  int number_digits(Family family) const { return number_digits_[static_cast<size_t>(family)]; }
  const std::vector<ProbedTensor>& tensors() const { return tensors_; }
  // The tensors of a family by number; indices into the table.
  const std::vector<uint32_t>& members(Family family) const {
    return members_[static_cast<size_t>(family)];
  }
  PlaneField field(const ProbedTensor& tensor, int plane) const;
  // The digit of a spare plane.
  uint16_t spare(const ProbedTensor& tensor, int plane) const;
  std::string plane_name(int plane) const;

 private:
  bool half_ = false;
  int planes_ = 0;
  std::array<int, kFamilies> number_digits_{};
  std::vector<ProbedTensor> tensors_;  // parallel to the table
  std::array<std::vector<uint32_t>, kFamilies> members_;
};

}  // namespace wb::probe
