#include "probe/views.h"

#include <algorithm>
#include <cassert>

#include "base/checked.h"

namespace wb::probe {
namespace {

// Where tensors may start in the random sequence.
constexpr uint64_t kStarts = 1u << 16;

// Elements of the sequence per step of a dimension, from the last dimension on. The first is 1, so
// that rows are dense; for the others no two rounds share a ratio, so that two places with the same
// value in one round have other values in the next.
constexpr std::array<std::array<int64_t, kMaxRank>, kValueRanges> kPaces = {{
    {1, 3, 7, 13, 19, 29, 37, 43},
    {1, 2, 5, 11, 17, 23, 31, 41},
    {1, 4, 9, 14, 21, 26, 33, 47},
}};

uint64_t next(uint64_t* state) {  // SplitMix64
  uint64_t x = *state += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

Status too_large(uint64_t bytes, uint64_t max_bytes) {
  return Status(Code::kNoMemory, "the probe tensors of one pass need " + std::to_string(bytes) +
                                     " bytes, more than the " + std::to_string(max_bytes) +
                                     " that max_bytes leaves for them");
}

int64_t pace(unsigned round, const ProbedTensor& tensor, int dim) {
  return kPaces[round][static_cast<size_t>(tensor.rank - 1 - dim)];
}

// The type that stands for all whose values look alike after a cast: of floats any does.
DType cast_source(DType source, DType dtype) {
  return family_of(source) == Family::kInteger ? source : dtype;
}

}  // namespace

Result<std::unique_ptr<IndexViews>> IndexViews::make(const TensorTable& table, const Schema& schema,
                                                     int plane, uint64_t max_bytes) {
  auto made = std::make_unique<IndexViews>();
  for (uint32_t t = 0; t < table.size(); ++t) {
    const ProbedTensor& tensor = schema.tensors()[t];
    const DType dtype = table[t].dtype;
    const Coding coding = index_coding(dtype, schema.half());
    const uint16_t mask = schema.mask(plane, tensor.family);
    const size_t element = element_bytes(dtype);
    const PlaneField field = schema.field(tensor, plane);
    assert(coding.base != 0);
    const auto masked = [&](int64_t digit) {
      return static_cast<uint16_t>((digit + mask) % coding.base);
    };
    const auto grow = [&](int64_t elements) {
      made->bytes_ += static_cast<uint64_t>(elements) * element;
      return made->bytes_ <= max_bytes;
    };
    View view;
    if (field.dim >= 0) {
      const int64_t length = tensor.shape[static_cast<size_t>(field.dim)];
      const auto key = std::make_tuple(dtype, length, field.weight);
      auto found = made->ramps_.find(key);
      if (found == made->ramps_.end()) {
        if (!grow(length)) return too_large(made->bytes_, max_bytes);
        Array ramp(static_cast<size_t>(length) * element);
        for (int64_t i = 0; i < length; ++i) {
          coding.write(masked(i / field.weight % coding.base),
                       &ramp[static_cast<size_t>(i) * element]);
        }
        found = made->ramps_.emplace(key, std::move(ramp)).first;
      }
      view.data = found->second.data();
      view.stride[static_cast<size_t>(field.dim)] = static_cast<int64_t>(element);
    } else {
      Array& all = made->digits_[dtype];
      if (all.empty()) {
        if (!grow(coding.base)) return too_large(made->bytes_, max_bytes);
        all.resize(coding.base * element);
        for (uint16_t d = 0; d < coding.base; ++d) coding.write(d, &all[d * element]);
      }
      const int64_t digit = field.dim == PlaneField::kNumber
                                ? tensor.number / field.weight % coding.base
                                : schema.spare(tensor, plane);
      view.data = &all[masked(digit) * element];
    }
    made->views_.push_back(view);
  }
  return made;
}

Result<std::unique_ptr<ValueViews>> ValueViews::make(const TensorTable& table, const Schema& schema,
                                                     unsigned round, uint64_t seed,
                                                     uint64_t max_bytes) {
  auto made = std::make_unique<ValueViews>();
  made->table_ = &table;
  made->schema_ = &schema;
  made->round_ = round % kValueRanges;
  made->seed_ = seed + round;
  int64_t longest = 1;
  for (const ProbedTensor& tensor : schema.tensors()) {
    if (tensor.empty) continue;
    int64_t last = 0;  // at most 47 * 2^48
    for (int d = 0; d < tensor.rank; ++d) {
      last += pace(made->round_, tensor, d) * (tensor.shape[static_cast<size_t>(d)] - 1);
    }
    longest = std::max(longest, last + 1);
  }
  made->length_ = longest + static_cast<int64_t>(kStarts);
  uint64_t element = 0;
  std::vector<DType>& types = made->types_;
  for (const TensorInfo& info : table.tensors()) {
    if (std::find(types.begin(), types.end(), info.dtype) != types.end()) continue;
    types.push_back(info.dtype);
    element += element_bytes(info.dtype);
  }
  const uint64_t bytes = static_cast<uint64_t>(made->length_) * element;
  if (bytes > max_bytes) return too_large(bytes, max_bytes);
  for (const DType dtype : types) made->prepare(dtype, dtype);
  return made;
}

void ValueViews::prepare(DType dtype) {
  for (const DType source : types_) {
    if (family_of(source) == family_of(dtype)) prepare(source, dtype);
  }
}

void ValueViews::prepare(DType source, DType dtype) {
  std::vector<std::byte>& sequence = sequence_[{cast_source(source, dtype), dtype}];
  if (!sequence.empty()) return;
  const size_t element = element_bytes(dtype);
  sequence.resize(static_cast<size_t>(length_) * element);
  uint64_t state = seed_;
  for (int64_t i = 0; i < length_; ++i) {
    write_value(source, dtype, round_, next(&state), &sequence[static_cast<size_t>(i) * element]);
  }
}

View ValueViews::view(uint32_t index) const { return view_as(index, (*table_)[index].dtype); }

View ValueViews::view_as(uint32_t index, DType dtype) const {
  const ProbedTensor& tensor = schema_->tensors()[index];
  const auto element = static_cast<int64_t>(element_bytes(dtype));
  uint64_t state = seed_ ^ (uint64_t{index} << 20);
  View view;
  view.data = sequence_.at({cast_source((*table_)[index].dtype, dtype), dtype}).data() +
              static_cast<size_t>(next(&state) % kStarts) * static_cast<size_t>(element);
  for (int d = 0; d < tensor.rank; ++d) {
    view.stride[static_cast<size_t>(d)] = pace(round_, tensor, d) * element;
  }
  return view;
}

uint64_t ValueViews::bytes() const {
  uint64_t total = 0;
  for (const auto& [types, sequence] : sequence_) total += sequence.capacity();
  return total;
}

}  // namespace wb::probe
