#include "capi/piece.h"

#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/checked.h"
#include "capi/error.h"

namespace wb::capi {
namespace {

static_assert(WB_BOOL == static_cast<int>(DType::kBool));
static_assert(WB_U8 == static_cast<int>(DType::kU8));
static_assert(WB_I8 == static_cast<int>(DType::kI8));
static_assert(WB_F8_E5M2 == static_cast<int>(DType::kF8E5M2));
static_assert(WB_F8_E4M3 == static_cast<int>(DType::kF8E4M3));
static_assert(WB_F8_E8M0 == static_cast<int>(DType::kF8E8M0));
static_assert(WB_I16 == static_cast<int>(DType::kI16));
static_assert(WB_U16 == static_cast<int>(DType::kU16));
static_assert(WB_F16 == static_cast<int>(DType::kF16));
static_assert(WB_BF16 == static_cast<int>(DType::kBF16));
static_assert(WB_I32 == static_cast<int>(DType::kI32));
static_assert(WB_U32 == static_cast<int>(DType::kU32));
static_assert(WB_F32 == static_cast<int>(DType::kF32));
static_assert(WB_I64 == static_cast<int>(DType::kI64));
static_assert(WB_U64 == static_cast<int>(DType::kU64));
static_assert(WB_F64 == static_cast<int>(DType::kF64));
static_assert(WB_C64 == static_cast<int>(DType::kC64));
static_assert(WB_F4 == static_cast<int>(DType::kF4));
static_assert(WB_F6_E2M3 == static_cast<int>(DType::kF6E2M3));
static_assert(WB_F6_E3M2 == static_cast<int>(DType::kF6E3M2));
static_assert(WB_F8_E4M3_FNUZ == static_cast<int>(DType::kF8E4M3FNUZ));
static_assert(WB_F8_E5M2_FNUZ == static_cast<int>(DType::kF8E5M2FNUZ));

Status off_byte(const TensorInfo& tensor) {
  return Status(Code::kUnsupported,
                tensor.name + " has " + std::to_string(dtype_info(tensor.dtype).bits) +
                    " bits an element: a range of its last dimension must be a whole number of "
                    "groups of " +
                    std::to_string(dtype_info(tensor.dtype).unit_elements) +
                    " neighbouring elements");
}

// The last dimension of a sub-byte tensor, from elements to units.
Result<Progression> in_units(const Progression& elements, const TensorInfo& tensor) {
  const int64_t unit = dtype_info(tensor.dtype).unit_elements;
  if (unit == 1) return elements;
  const bool aligned =
      elements.step == 1 && elements.start % unit == 0 && elements.count % unit == 0;
  if (!aligned) return off_byte(tensor);
  return Progression{elements.start / unit, elements.count / unit, 1};
}

Result<Box> given_box(const wb_piece& given, const TensorInfo& tensor) {
  WB_RETURN_IF_ERROR(not_null(given.count, "the piece's count"));
  std::array<Progression, kMaxRank> dims;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    const int64_t step = given.step == nullptr ? 1 : given.step[d];
    // One coordinate has no neighbour: its step means nothing.
    Progression dim{given.start[d], given.count[d], given.count[d] == 1 ? 1 : step};
    if (d + 1 == tensor.shape.size()) {
      WB_ASSIGN_OR_RETURN(dim, in_units(dim, tensor));
    }
    dims[d] = dim;
  }
  return Box::make(std::span(dims).first(tensor.shape.size()));
}

// Row-major and without gaps.
Result<std::array<int64_t, kMaxRank>> dense_strides(const Box& box, const TensorInfo& tensor) {
  std::array<int64_t, kMaxRank> strides{};
  std::optional<int64_t> next = dtype_info(tensor.dtype).unit_bytes;
  for (int d = box.rank() - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d)] = *next;
    next = checked_mul(*next, box.dim(d).count);
    if (!next) return Status(Code::kInvalidArgument, tensor.name + ": the piece is too large");
  }
  return strides;
}

}  // namespace

Result<std::optional<Piece>> make_piece(const TensorTable& table, const wb_piece& given) {
  WB_RETURN_IF_ERROR(not_null(given.tensor, "the piece's tensor"));
  WB_ASSIGN_OR_RETURN(const uint32_t index, table.find(given.tensor));
  const TensorInfo& tensor = table[index];
  const bool has_arrays = given.start != nullptr || given.count != nullptr ||
                          given.step != nullptr || given.stride != nullptr;
  if (has_arrays && given.rank != tensor.shape.size()) {
    return Status(Code::kInvalidArgument, "the piece's rank is " + std::to_string(given.rank) +
                                              ", that of " + tensor.name + " is " +
                                              std::to_string(tensor.shape.size()));
  }
  Piece piece;
  piece.tensor = index;
  piece.buffer = given.buffer;
  piece.offset = given.offset;
  if (given.start == nullptr) {
    if (given.count != nullptr || given.step != nullptr) {
      return Status(Code::kInvalidArgument, "a piece with count or step needs start");
    }
    if (tensor.bytes() == 0) return std::optional<Piece>();
    WB_ASSIGN_OR_RETURN(piece.box, Box::whole(tensor.unit_shape()));
  } else {
    WB_ASSIGN_OR_RETURN(piece.box, given_box(given, tensor));
  }
  if (given.stride == nullptr) {
    WB_ASSIGN_OR_RETURN(piece.stride, dense_strides(piece.box, tensor));
  } else {
    for (size_t d = 0; d < tensor.shape.size(); ++d) piece.stride[d] = given.stride[d];
  }
  return std::optional<Piece>(piece);
}

wb_piece PieceView::show(const TensorInfo& tensor, const Piece& piece) {
  tensor_ = tensor.name;
  const int64_t unit = dtype_info(tensor.dtype).unit_elements;
  for (int d = 0; d < piece.box.rank(); ++d) {
    const auto dim = static_cast<size_t>(d);
    const Progression& p = piece.box.dim(d);
    // Units of a packed type are as many elements side by side; only dense ranges come in units.
    const int64_t elements = d + 1 == piece.box.rank() ? unit : 1;
    start_[dim] = p.start * elements;
    count_[dim] = p.count * elements;
    step_[dim] = p.step;
    stride_[dim] = piece.stride[dim];
  }
  return {sizeof(wb_piece), tensor_.c_str(), piece.buffer, static_cast<uint32_t>(piece.box.rank()),
          start_.data(),    count_.data(),   step_.data(), piece.offset,
          stride_.data()};
}

}  // namespace wb::capi
