#include "probe/schema.h"

#include <algorithm>

#include "base/checked.h"

namespace wb::probe {
namespace {

// Digits that numbers in [0, count) need; 0 where there is one number only.
int digits_for(int64_t count, int64_t base) {
  int digits = 0;
  for (int64_t rest = count - 1; rest > 0; rest /= base) ++digits;
  return digits;
}

// A mix of two small numbers (the finaliser of MurmurHash3).
uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0x632BE59BD9B4E019u;
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDu;
  x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53u;
  return x ^ (x >> 33);
}

ProbedTensor probed(const TensorInfo& info) {
  ProbedTensor tensor;
  const DTypeInfo& type = dtype_info(info.dtype);
  tensor.rank = static_cast<int>(info.shape.size());
  std::copy(info.shape.begin(), info.shape.end(), tensor.shape.begin());
  if (type.unit_elements != 1 && tensor.rank > 0) {
    int64_t& last = tensor.shape[static_cast<size_t>(tensor.rank - 1)];
    last = last / type.unit_elements * type.unit_bytes;
  }
  tensor.family = family_of(info.dtype);
  tensor.empty = info.bytes() == 0;
  return tensor;
}

}  // namespace

Result<Schema> Schema::make(const TensorTable& table, bool half) {
  Schema schema;
  schema.half_ = half;
  uint64_t elements = 0;
  for (const TensorInfo& info : table.tensors()) {
    elements += info.bytes() / element_bytes(info.dtype);  // the table bounds its bytes
    if (elements >> kMaxIndexBits != 0) {
      return Status(Code::kUnsupported, "probing numbers at most 2^48 elements; with tensor '" +
                                            info.name + "' the table has more")
          .with_tensor(info.name);
    }
    ProbedTensor tensor = probed(info);
    auto& members = schema.members_[static_cast<size_t>(tensor.family)];
    tensor.number = static_cast<uint32_t>(members.size());
    members.push_back(static_cast<uint32_t>(schema.tensors_.size()));
    schema.tensors_.push_back(tensor);
  }
  for (size_t f = 0; f < kFamilies; ++f) {
    const auto base = schema.base(static_cast<Family>(f));
    // One more than there are tensors, so that a single tensor has a digit too.
    schema.number_digits_[f] =
        digits_for(static_cast<int64_t>(schema.members_[f].size()) + 1, base);
  }
  for (ProbedTensor& tensor : schema.tensors_) {
    int planes = schema.number_digits(tensor.family);
    if (!tensor.empty) {
      for (int d = 0; d < tensor.rank; ++d) {
        const auto dim = static_cast<size_t>(d);
        const int digits = digits_for(tensor.shape[dim], schema.base(tensor.family));
        tensor.digits[dim] = static_cast<uint8_t>(digits);
        planes += digits;
      }
    }
    schema.planes_ = std::max(schema.planes_, planes);
  }
  return schema;
}

uint16_t Schema::mask(int plane, Family family) const {
  return static_cast<uint16_t>(mix(static_cast<uint64_t>(plane), 1) % base(family));
}

uint16_t Schema::spare(const ProbedTensor& tensor, int plane) const {
  return static_cast<uint16_t>(mix(tensor.number, static_cast<uint64_t>(plane) + 2) %
                               base(tensor.family));
}

PlaneField Schema::field(const ProbedTensor& tensor, int plane) const {
  const int64_t base = this->base(tensor.family);
  const auto weight = [&](int digit) {
    int64_t power = 1;
    for (int i = 0; i < digit; ++i) power *= base;
    return power;
  };
  const int number_digits = this->number_digits(tensor.family);
  if (plane < number_digits) return {PlaneField::kNumber, weight(plane)};
  plane -= number_digits;
  for (int d = 0; d < tensor.rank; ++d) {
    const int digits = tensor.digits[static_cast<size_t>(d)];
    if (plane < digits) return {d, weight(plane)};
    plane -= digits;
  }
  return {PlaneField::kSpare, 1};
}

std::string Schema::plane_name(int plane) const {
  int number_digits = 0;
  for (const int digits : number_digits_) number_digits = std::max(number_digits, digits);
  return (plane < number_digits ? "tensor number" : "coordinates") + std::string(", digit ") +
         std::to_string(plane < number_digits ? plane : plane - number_digits);
}

}  // namespace wb::probe
