#include "layout/tensor_table.h"

#include <algorithm>

#include "base/checked.h"
#include "layout/quote.h"
#include "layout/utf8.h"

namespace wb {
namespace {

// So that byte offsets, counts of units and sums of two of them fit in int64.
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

Status fault(Code code, const TensorInfo& tensor, const std::string& what) {
  return Status(code, "tensor " + quote(tensor.name) + ": " + what).with_tensor(tensor.name);
}

Status check_tensor(const TensorInfo& tensor) {
  if (tensor.name.empty()) return Status(Code::kInvalidArgument, "a tensor without a name");
  if (!is_utf8(tensor.name)) {
    return Status(Code::kInvalidArgument, "a tensor's name is not valid UTF-8");
  }
  const DTypeInfo* type = find_dtype(tensor.dtype);
  if (type == nullptr) return fault(Code::kInvalidArgument, tensor, "unknown dtype");
  if (tensor.shape.size() > static_cast<size_t>(kMaxRank)) {
    return fault(
        Code::kInvalidArgument, tensor,
        std::to_string(tensor.shape.size()) + " dimensions; at most " + std::to_string(kMaxRank));
  }
  bool empty = false;
  for (const int64_t extent : tensor.shape) {
    if (extent < 0) return fault(Code::kInvalidArgument, tensor, "a negative dimension");
    if (extent == 0) empty = true;
  }
  const int64_t last = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (last % type->unit_elements != 0) {
    return fault(Code::kUnsupported, tensor,
                 "its last dimension (" + std::to_string(last) + ") is not a multiple of " +
                     std::to_string(type->unit_elements) + ", so rows of " +
                     std::string(type->name) + " do not start on a byte");
  }
  if (empty) return Status();
  uint64_t bytes = type->unit_bytes;
  for (const int64_t extent : tensor.unit_shape()) {
    const auto grown = checked_mul(bytes, static_cast<uint64_t>(extent));
    if (!grown || *grown > kMaxBytes) {
      return fault(Code::kInvalidArgument, tensor, "larger than 2^62 bytes");
    }
    bytes = *grown;
  }
  return Status();
}

Digest table_digest(const std::vector<TensorInfo>& tensors) {
  Hasher hasher;
  hasher.add(std::string_view("weightbridge tensor table 1"));
  hasher.add(uint64_t{tensors.size()});
  for (const TensorInfo& tensor : tensors) {
    hasher.add(std::string_view(tensor.name));
    hasher.add(static_cast<uint64_t>(tensor.dtype));
    hasher.add(uint64_t{tensor.shape.size()});
    for (const int64_t extent : tensor.shape) hasher.add(extent);
  }
  return hasher.digest();
}

}  // namespace

std::vector<int64_t> TensorInfo::unit_shape() const {
  std::vector<int64_t> units = shape;
  if (!units.empty()) units.back() /= dtype_info(dtype).unit_elements;
  return units;
}

uint64_t TensorInfo::bytes() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  uint64_t bytes = dtype_info(dtype).unit_bytes;
  for (const int64_t extent : unit_shape()) bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

Result<TensorTable> TensorTable::make(std::vector<TensorInfo> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  TensorTable table;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = tensors[i];
    WB_RETURN_IF_ERROR(check_tensor(tensor));
    if (i > 0 && tensors[i - 1].name == tensor.name) {
      return fault(Code::kInvalidArgument, tensor, "named twice");
    }
    table.bytes_ += tensor.bytes();  // both at most 2^62
    if (table.bytes_ > kMaxBytes) {
      return Status(Code::kInvalidArgument, "the tensors are larger than 2^62 bytes together");
    }
  }
  if (tensors.size() > UINT32_MAX) {
    return Status(Code::kInvalidArgument, "more than 2^32 - 1 tensors");
  }
  table.digest_ = table_digest(tensors);
  table.tensors_ = std::move(tensors);
  return table;
}

Result<uint32_t> TensorTable::find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const TensorInfo& tensor, std::string_view n) { return tensor.name < n; });
  if (at == tensors_.end() || at->name != name) {
    return Status(Code::kNotFound, "no tensor named " + quote(name)).with_tensor(std::string(name));
  }
  return static_cast<uint32_t>(at - tensors_.begin());
}

}  // namespace wb
