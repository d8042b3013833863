#include "layout/rules_builder.h"

#include <optional>

#include "base/checked.h"

namespace wb {
namespace {

// Row-major byte strides over units, with the size of all as one more entry in front.
std::optional<std::vector<int64_t>> strides_of(std::span<const int64_t> unit_shape,
                                               int64_t unit_bytes) {
  std::vector<int64_t> out(unit_shape.size() + 1);
  out.back() = unit_bytes;
  for (size_t d = unit_shape.size(); d-- > 0;) {
    const auto next = checked_mul(out[d + 1], unit_shape[d]);
    if (!next) return std::nullopt;
    out[d] = *next;
  }
  return out;
}

// The boxes of a range of the flattened tensor: a part of the first row, whole rows, a part of the
// last one, and so on inside the parts.
struct FlatBox {
  std::vector<Progression> dims;
  int64_t start = 0;  // index of its first unit
};

void cover(std::span<const int64_t> shape, int64_t begin, int64_t end, int64_t base,
           std::vector<Progression>* fixed, std::vector<FlatBox>* out) {
  const auto emit = [&](int64_t first, int64_t count, int64_t inner) {
    FlatBox box{*fixed, base + first * inner};
    box.dims.push_back({first, count, 1});
    for (int64_t extent : shape.subspan(1)) box.dims.push_back({0, extent, 1});
    out->push_back(std::move(box));
  };
  int64_t inner = 1;
  for (int64_t extent : shape.subspan(1)) inner *= extent;
  const auto descend = [&](int64_t row, int64_t from, int64_t to) {
    fixed->push_back({row, 1, 1});
    cover(shape.subspan(1), from, to, base + row * inner, fixed, out);
    fixed->pop_back();
  };
  int64_t row = begin / inner;
  const int64_t last = end / inner;
  if (row == last) return descend(row, begin % inner, end % inner);
  if (begin % inner != 0) descend(row++, begin % inner, inner);
  if (row < last) emit(row, last - row, inner);
  if (end % inner != 0) descend(last, 0, end % inner);
}

}  // namespace

Status LayoutBuilder::open(std::string name, DType dtype, std::vector<int64_t> shape) {
  dtype_ = &dtype_info(dtype);
  std::vector<int64_t> units = shape;
  if (!units.empty()) {
    if (units.back() % dtype_->unit_elements != 0) {
      return Status(
          Code::kUnsupported,
          "parameter " + name + " would begin or end inside a byte: " + std::string(dtype_->name) +
              " elements are addressed " + std::to_string(dtype_->unit_elements) + " at a time");
    }
    units.back() /= dtype_->unit_elements;
  }
  auto strides = strides_of(units, dtype_->unit_bytes);
  if (!strides) {
    return Status(Code::kInvalidArgument, "parameter " + name + " is larger than 2^63 bytes");
  }
  const auto bytes = static_cast<uint64_t>(strides->front());
  strides_.assign(strides->begin() + 1, strides->end());
  if (strides_.empty()) strides_.push_back(dtype_->unit_bytes);
  layout_.buffers.push_back({std::move(name), dtype, std::move(shape), bytes});
  return Status();
}

void LayoutBuilder::add_piece(uint32_t tensor, const Box& box, int64_t offset,
                              std::span<const int64_t> strides) {
  Piece piece;
  piece.tensor = tensor;
  piece.buffer = static_cast<uint32_t>(layout_.buffers.size() - 1);
  piece.box = box;
  piece.offset = offset;
  for (size_t d = 0; d < strides.size(); ++d) piece.stride[d] = strides[d];
  layout_.pieces.push_back(piece);
}

Status LayoutBuilder::place(uint32_t tensor, const Slice& slice,
                            std::initializer_list<int64_t> at) {
  const TensorInfo& info = table_[tensor];
  const BufferInfo& buffer = layout_.buffers.back();
  if (info.dtype != buffer.dtype) {
    return Status(Code::kMismatch, "tensor " + info.name + " has type " +
                                       std::string(dtype_info(info.dtype).name) +
                                       "; the others of parameter " + buffer.name + " have " +
                                       std::string(dtype_->name))
        .with_tensor(info.name);
  }
  const std::vector<int64_t> shape = info.unit_shape();
  if (shape.size() > buffer.shape.size() || at.size() > buffer.shape.size()) {
    return Status(Code::kInternal, "tensor " + info.name + " does not fit " + buffer.name);
  }
  const size_t lead = buffer.shape.size() - shape.size();
  std::vector<Progression> dims;
  for (int64_t extent : shape) dims.push_back({0, extent, 1});
  int64_t offset = 0;
  std::vector<int64_t> index(at);
  index.resize(buffer.shape.size());
  if (!shape.empty()) {
    const auto dim = static_cast<size_t>(slice.dim);
    const int64_t unit = dim + 1 == shape.size() ? dtype_->unit_elements : 1;
    int64_t& last = index.back();
    if (slice.first < 0 || slice.count < 0 || slice.first + slice.count > info.shape[dim]) {
      return Status(Code::kMismatch,
                    "tensor " + info.name + " is smaller than parameter " + buffer.name + " needs")
          .with_tensor(info.name);
    }
    if (slice.first % unit != 0 || slice.count % unit != 0 || last % dtype_->unit_elements != 0) {
      return Status(Code::kUnsupported, "tensor " + info.name + " of type " +
                                            std::string(dtype_->name) +
                                            " would be cut inside a byte")
          .with_tensor(info.name);
    }
    dims[dim] = {slice.first / unit, slice.count / unit, 1};
    last /= dtype_->unit_elements;
  }
  for (const Progression& p : dims) {
    if (p.count == 0) return Status();
  }
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * strides_[d];
  WB_ASSIGN_OR_RETURN(const Box box, Box::make(dims));
  add_piece(tensor, box, offset, std::span(strides_).subspan(lead, shape.size()));
  return Status();
}

Status LayoutBuilder::place_flat(uint32_t tensor, int64_t first, int64_t count, int64_t unit_at) {
  if (count == 0) return Status();
  const TensorInfo& info = table_[tensor];
  const std::vector<int64_t> shape = info.unit_shape();
  const auto strides = strides_of(shape, dtype_->unit_bytes);
  if (!strides) return Status(Code::kInternal, "a tensor of the table overflows: " + info.name);
  std::vector<FlatBox> boxes;
  std::vector<Progression> fixed;
  if (shape.empty()) {
    boxes.push_back({});
  } else {
    cover(shape, first, first + count, 0, &fixed, &boxes);
  }
  for (const FlatBox& flat : boxes) {
    WB_ASSIGN_OR_RETURN(const Box box, Box::make(flat.dims));
    add_piece(tensor, box, (unit_at + flat.start - first) * dtype_->unit_bytes,
              std::span(*strides).subspan(1));
  }
  return Status();
}

void LayoutBuilder::add_extra(uint64_t offset, uint64_t bytes, ExtraKind kind) {
  if (bytes == 0) return;
  const auto buffer = static_cast<uint32_t>(layout_.buffers.size() - 1);
  layout_.extras.push_back({buffer, offset, bytes, kind, layout_.buffers.back().name + ".padding"});
}

void LayoutBuilder::pad_rows(int64_t first, int64_t count, ExtraKind kind) {
  const int64_t row = strides_.front();
  add_extra(static_cast<uint64_t>(first * row), static_cast<uint64_t>(count * row), kind);
}

void LayoutBuilder::pad_units(int64_t first, int64_t count, ExtraKind kind) {
  const int64_t unit = dtype_->unit_bytes;
  add_extra(static_cast<uint64_t>(first * unit), static_cast<uint64_t>(count * unit), kind);
}

}  // namespace wb
