#include "world.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace wb::probe::test {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

double small_float(uint64_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto mantissa = static_cast<double>(bits & ((1u << mantissa_bits) - 1));
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  const bool negative = (bits >> (mantissa_bits + exponent_bits) & 1) != 0;
  const double scale = std::ldexp(1.0, -mantissa_bits);
  const double value = exponent == 0 ? std::ldexp(mantissa * scale, 1 - bias)
                                     : std::ldexp(1 + mantissa * scale, exponent - bias);
  return negative ? -value : value;
}

// Truncates; out of range becomes the largest.
uint64_t to_small_float(double value, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint64_t sign = std::signbit(value) ? 1 : 0;
  value = std::abs(value);
  uint64_t bits = 0;
  if (value != 0) {
    int exponent = 0;
    std::frexp(value, &exponent);
    exponent = exponent - 1 + bias;
    const int top = (1 << exponent_bits) - 2;
    if (exponent > top) {
      bits = static_cast<uint64_t>(top) << mantissa_bits | ((1u << mantissa_bits) - 1);
    } else if (exponent > 0) {
      const double fraction = std::ldexp(value, bias - exponent) - 1;
      bits = static_cast<uint64_t>(exponent) << mantissa_bits |
             static_cast<uint64_t>(fraction * (1 << mantissa_bits));
    }
  }
  return sign << (exponent_bits + mantissa_bits) | bits;
}

double to_double(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::kBF16:
      return std::bit_cast<float>(static_cast<uint32_t>(bits << 16));
    case DType::kF16:
      return small_float(bits, 5, 10);
    case DType::kF32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    case DType::kF64:
      return std::bit_cast<double>(bits);
    case DType::kF8E4M3:
      return small_float(bits, 4, 3);
    case DType::kF8E5M2:
      return small_float(bits, 5, 2);
    case DType::kI8:
      return static_cast<double>(static_cast<int8_t>(bits));
    case DType::kI16:
      return static_cast<double>(static_cast<int16_t>(bits));
    case DType::kI32:
      return static_cast<double>(static_cast<int32_t>(bits));
    case DType::kI64:
      return static_cast<double>(static_cast<int64_t>(bits));
    default:
      return static_cast<double>(bits);
  }
}

uint64_t from_double(DType dtype, double value) {
  switch (dtype) {
    case DType::kBF16:
      return std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
    case DType::kF16:
      return to_small_float(value, 5, 10);
    case DType::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DType::kF64:
      return std::bit_cast<uint64_t>(value);
    case DType::kF8E4M3:
      return to_small_float(value, 4, 3);
    case DType::kF8E5M2:
      return to_small_float(value, 5, 2);
    case DType::kI8:
      return static_cast<uint8_t>(static_cast<int8_t>(std::clamp(value, -127.0, 127.0)));
    case DType::kI16:
      return static_cast<uint16_t>(static_cast<int16_t>(value));
    case DType::kI32:
      return static_cast<uint32_t>(static_cast<int32_t>(value));
    case DType::kI64:
      return static_cast<uint64_t>(static_cast<int64_t>(value));
    default:
      return static_cast<uint64_t>(std::max(value, 0.0));
  }
}

// Calls visit(index) for each index vector of the shape, in row-major order.
template <typename Visit>
void for_each_index_of(const std::vector<int64_t>& shape, Visit visit) {
  if (product(shape) == 0) return;
  std::vector<int64_t> index(shape.size(), 0);
  for (;;) {
    visit(index);
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

int64_t flat(const std::vector<int64_t>& shape, const std::vector<int64_t>& index) {
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return at;
}

// A new array of `shape` whose cell at an index is a's at from(index).
template <typename From>
Array rearranged(const Array& a, std::vector<int64_t> shape, From from) {
  Array out{a.dtype, std::move(shape), {}};
  for_each_index_of(out.shape, [&](const std::vector<int64_t>& index) {
    out.cells.push_back(a.cells.at(static_cast<size_t>(flat(a.shape, from(index)))));
  });
  return out;
}

std::vector<int64_t> probed_shape(const ProbedTensor& tensor) {
  return {tensor.shape.begin(), tensor.shape.begin() + tensor.rank};
}

}  // namespace

Array constant(DType dtype, std::vector<int64_t> shape, double value) {
  Array out{dtype, std::move(shape), {}};
  out.cells.assign(static_cast<size_t>(product(out.shape)),
                   {from_double(dtype, value), {Origin::kConstant, 0}});
  return out;
}

Array slice(const Array& a, int dim, int64_t first, int64_t count, int64_t step) {
  std::vector<int64_t> shape = a.shape;
  shape[static_cast<size_t>(dim)] = count;
  return rearranged(a, shape, [&](std::vector<int64_t> index) {
    index[static_cast<size_t>(dim)] = first + index[static_cast<size_t>(dim)] * step;
    return index;
  });
}

Array flip(const Array& a, int dim) {
  return rearranged(a, a.shape, [&](std::vector<int64_t> index) {
    const auto d = static_cast<size_t>(dim);
    index[d] = a.shape[d] - 1 - index[d];
    return index;
  });
}

Array transpose(const Array& a, const std::vector<int>& order) {
  std::vector<int64_t> shape;
  for (const int d : order) shape.push_back(a.shape[static_cast<size_t>(d)]);
  return rearranged(a, shape, [&](const std::vector<int64_t>& index) {
    std::vector<int64_t> from(index.size());
    for (size_t d = 0; d < order.size(); ++d) from[static_cast<size_t>(order[d])] = index[d];
    return from;
  });
}

Array reshape(const Array& a, std::vector<int64_t> shape) {
  Array out = a;
  out.shape = std::move(shape);
  if (product(out.shape) != a.size()) throw std::logic_error("reshape");
  return out;
}

Array cat(const std::vector<Array>& parts, int dim) {
  const auto d = static_cast<size_t>(dim);
  Array out{parts[0].dtype, parts[0].shape, {}};
  out.shape[d] = 0;
  for (const Array& part : parts) out.shape[d] += part.shape[d];
  for_each_index_of(out.shape, [&](std::vector<int64_t> index) {
    size_t part = 0;
    while (index[d] >= parts[part].shape[d]) index[d] -= parts[part++].shape[d];
    out.cells.push_back(parts[part].cells.at(static_cast<size_t>(flat(parts[part].shape, index))));
  });
  return out;
}

Array stack(const std::vector<Array>& parts) {
  Array out{parts[0].dtype, parts[0].shape, {}};
  out.shape.insert(out.shape.begin(), static_cast<int64_t>(parts.size()));
  for (const Array& part : parts) {
    out.cells.insert(out.cells.end(), part.cells.begin(), part.cells.end());
  }
  return out;
}

Array interleave(const std::vector<Array>& parts, int dim) {
  const auto d = static_cast<size_t>(dim);
  const auto n = static_cast<int64_t>(parts.size());
  Array out{parts[0].dtype, parts[0].shape, {}};
  out.shape[d] *= n;
  for_each_index_of(out.shape, [&](std::vector<int64_t> index) {
    const Array& part = parts[static_cast<size_t>(index[d] % n)];
    index[d] /= n;
    out.cells.push_back(part.cells.at(static_cast<size_t>(flat(part.shape, index))));
  });
  return out;
}

Array pad(const Array& a, int dim, int64_t size, double value) {
  std::vector<int64_t> shape = a.shape;
  shape[static_cast<size_t>(dim)] = size - shape[static_cast<size_t>(dim)];
  return cat({a, constant(a.dtype, shape, value)}, dim);
}

Array tiled(const Array& a, int64_t n, int64_t k) {
  const Array split = reshape(a, {a.shape[0] / n, n, a.shape[1] / k, k});
  return reshape(transpose(split, {0, 2, 1, 3}), {a.size()});
}

Array halves_swapped(const Array& a, int dim) {
  const int64_t half = a.shape[static_cast<size_t>(dim)] / 2;
  const int64_t rest = a.shape[static_cast<size_t>(dim)] - half;
  return cat({slice(a, dim, half, rest), slice(a, dim, 0, half)}, dim);
}

Array swizzled(const Array& a, int64_t chunk, int64_t rows) {
  return rearranged(a, a.shape, [&](std::vector<int64_t> index) {
    const int64_t number = (index[1] / chunk) ^ (index[0] % rows);
    index[1] = number * chunk + index[1] % chunk;
    return index;
  });
}

Array repeated(const Array& a, int64_t times) {
  return stack(std::vector<Array>(static_cast<size_t>(times), a));
}

Array cast(const Array& a, DType dtype) {
  Array out = a;
  out.dtype = dtype;
  for (Cell& cell : out.cells) cell.bits = from_double(dtype, to_double(a.dtype, cell.bits));
  return out;
}

Array computed(const Array& a, const std::function<double(double)>& f) {
  Array out = a;
  for (Cell& cell : out.cells) {
    cell.bits = from_double(a.dtype, f(to_double(a.dtype, cell.bits)));
    if (cell.from.tensor >= 0) cell.from = {Origin::kComputed, 0};
  }
  return out;
}

Array sum(const Array& a, const Array& b) {
  Array out = a;
  for (size_t i = 0; i < out.cells.size(); ++i) {
    const double value = to_double(a.dtype, a.cells[i].bits) + to_double(b.dtype, b.cells[i].bits);
    out.cells[i] = {from_double(a.dtype, value), {Origin::kComputed, 0}};
  }
  return out;
}

Array quantised(const Array& a, double* scale) {
  double largest = 0;
  for (const Cell& cell : a.cells) {
    largest = std::max(largest, std::abs(to_double(a.dtype, cell.bits)));
  }
  *scale = largest / 127;
  Array out = a;
  out.dtype = DType::kI8;
  for (Cell& cell : out.cells) {
    const double value = to_double(a.dtype, cell.bits) / *scale;
    cell = {from_double(DType::kI8, std::nearbyint(value)), {Origin::kComputed, 0}};
  }
  return out;
}

uint64_t Buffer::elements() const { return truth.size(); }
uint64_t Buffer::bytes() const { return elements() * element_bytes(dtype) + slack; }

World::World(std::vector<TensorInfo> tensors) {
  auto table = TensorTable::make(std::move(tensors));
  if (!table.ok()) throw std::logic_error(table.status().to_string());
  table_ = *table;
}

void World::add(std::string name, DType dtype, std::vector<int64_t> shape, uint64_t slack) {
  Buffer buffer{std::move(name), dtype, std::move(shape), {}, {}, slack};
  const DTypeInfo& type = dtype_info(dtype);
  const auto units = static_cast<uint64_t>(product(buffer.shape)) / type.unit_elements;
  const uint64_t bytes = units * type.unit_bytes;
  buffer.truth.resize(bytes / element_bytes(dtype));
  buffer.storage.resize((bytes + slack) / 8 + 1);
  by_name_[buffer.name] = buffers_.size();
  buffers_.push_back(std::move(buffer));
}

void World::store_cell(const std::string& name, int64_t at, const Cell& cell) {
  Buffer& to = buffer(name);
  to.truth.at(static_cast<size_t>(at)) = cell.from;
  const uint32_t element = element_bytes(to.dtype);
  std::memcpy(to.data() + at * element, &cell.bits, element);
}

void World::store(const std::string& name, const Array& a, int64_t at) {
  if (element_bytes(buffer(name).dtype) != element_bytes(a.dtype)) throw std::logic_error(name);
  for (int64_t i = 0; i < a.size(); ++i) store_cell(name, at + i, a.cells[static_cast<size_t>(i)]);
}

Array World::weights(uint32_t tensor) const {
  Array out;
  out.dtype = table_[tensor].dtype;
  out.shape = table_[tensor].shape;
  const DTypeInfo& type = dtype_info(out.dtype);
  if (type.unit_elements != 1) {
    out.shape.back() = out.shape.back() / type.unit_elements * type.unit_bytes;
  }
  const int64_t size = product(out.shape);
  uint64_t state = tensor * 977u + 1;
  for (int64_t i = 0; i < size; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double value = static_cast<double>(state >> 40) / (1 << 24) - 0.5;
    const bool byte = family_of(out.dtype) == Family::kByte;
    out.cells.push_back({byte ? state >> 56 : from_double(out.dtype, value), {tensor, i}});
  }
  return out;
}

Array World::probe_tensor(const Prober& prober, uint32_t tensor) const {
  auto view = prober.view(tensor);
  if (!view.ok()) throw std::logic_error(view.status().to_string());
  Array out{table_[tensor].dtype, probed_shape(*view->probed), {}};
  const uint32_t element = element_bytes(out.dtype);
  int64_t number = 0;
  for_each_index_of(out.shape, [&](const std::vector<int64_t>& index) {
    const std::byte* at = view->data;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] * view->stride[d];
    Cell cell{0, {tensor, number++}};
    std::memcpy(&cell.bits, at, element);
    out.cells.push_back(cell);
  });
  return out;
}

void World::load_weights(const Loader& loader) {
  loader(
      [&](const std::string& name) {
        const auto index = table_.find(name);
        if (!index.ok()) throw std::out_of_range(name);
        return weights(*index);
      },
      this);
}

void World::fill_with_garbage(uint64_t seed) {
  for (Buffer& buffer : buffers_) {
    for (uint64_t& word : buffer.storage) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      word = seed ^ seed >> 29;
    }
  }
}

void add_buffers(World* world, Prober* prober) {
  for (Buffer& buffer : world->buffers()) {
    auto added = prober->add_buffer({buffer.name, buffer.dtype, buffer.shape, buffer.bytes()},
                                    buffer.data());
    if (!added.ok()) throw std::logic_error(added.status().to_string());
  }
}

Status run_probe(World* world, const World::Loader& loader, Prober* prober, bool listed) {
  for (;;) {
    auto pass = prober->begin_pass();
    if (!pass.ok()) return pass.status();
    if (pass->kind == PassKind::kDone) return Status();
    for (Buffer& buffer : world->buffers()) {
      std::fill(buffer.truth.begin(), buffer.truth.end(), Origin());
    }
    if (pass->kind == PassKind::kReload) {
      world->load_weights(loader);
    } else {
      loader(
          [&](const std::string& name) {
            const auto index = world->table().find(name);
            if (!index.ok()) throw std::out_of_range(name);
            return world->probe_tensor(*prober, *index);
          },
          world);
    }
    std::vector<Place> places;
    for (Buffer& buffer : world->buffers()) {
      places.push_back({buffer.name, buffer.data(), buffer.bytes()});
    }
    const Status status = prober->end_pass(places, listed);
    if (!status.ok()) return status;
  }
}

namespace {

constexpr int64_t kNothing = -100;

// Per element (byte for packed types) of the buffer: what the result says.
struct Said {
  Origin from{kNothing, 0};
  ByteKind kind = ByteKind::kCopied;
  int times = 0;
};

void expand_piece(const TensorTable& table, const Piece& piece, uint32_t element,
                  std::vector<Said>* said, std::string* fault) {
  const TensorInfo& info = table[piece.tensor];
  const DTypeInfo& type = dtype_info(info.dtype);
  const int64_t unit = type.unit_elements != 1 ? type.unit_bytes : 1;  // elements per unit
  std::vector<int64_t> counts, shape = info.unit_shape();
  for (int d = 0; d < piece.box.rank(); ++d) counts.push_back(piece.box.dim(d).count);
  for_each_index_of(counts, [&](const std::vector<int64_t>& index) {
    int64_t offset = piece.offset, at = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      const Progression& p = piece.box.dim(static_cast<int>(d));
      offset += index[d] * piece.stride[d];
      at = at * shape[d] + p.start + index[d] * p.step;
    }
    for (int64_t i = 0; i < unit; ++i) {
      const auto place = static_cast<size_t>(offset / element + i);
      if (offset % element != 0 || place >= said->size()) {
        *fault = "a piece of " + info.name + " leaves its buffer";
        return;
      }
      (*said)[place].from = {piece.tensor, at * unit + i};
      ++(*said)[place].times;
    }
  });
}

ByteKind kind_of(const Origin& truth) {
  if (truth.tensor == Origin::kUntouched) return ByteKind::kUntouched;
  if (truth.tensor == Origin::kConstant) return ByteKind::kConstant;
  if (truth.tensor == Origin::kComputed) return ByteKind::kComputed;
  return ByteKind::kCopied;
}

// A few constant bytes beside computed ones may be called computed: equal by chance looks the same.
bool lost_in_computed(const Buffer& buffer, size_t i) {
  const auto kind = [&](size_t at) {
    return at < buffer.truth.size() ? buffer.truth[at].tensor : Origin::kUntouched;
  };
  size_t first = i, end = i + 1;
  while (first > 0 && kind(first - 1) == Origin::kConstant) --first;
  while (kind(end) == Origin::kConstant) ++end;
  const bool beside =
      (first > 0 && kind(first - 1) == Origin::kComputed) || kind(end) == Origin::kComputed;
  return beside && (end - first) * element_bytes(buffer.dtype) < 16;
}

std::string describe(const Origin& from, ByteKind kind) {
  static const char* const names[] = {"?", "copied", "cast", "untouched", "constant", "computed"};
  std::string text = names[static_cast<size_t>(kind)];
  if (from.tensor >= 0) {
    text += " " + std::to_string(from.tensor) + "[" + std::to_string(from.element) + "]";
  }
  return text;
}

}  // namespace

std::string compare(World* world, const Prober& prober) {
  const Probed* result = prober.result();
  if (result == nullptr) return "there is no result";
  const TensorTable& table = world->table();
  const Status checked = check_layout(table, result->layout, LayoutRole::kReceiver);
  if (!checked.ok()) return checked.to_string();
  std::string fault;
  std::vector<std::map<int64_t, int>> homes(table.size());
  std::vector<std::map<int64_t, int>> casts(table.size());
  for (uint32_t b = 0; b < result->layout.buffers.size(); ++b) {
    const BufferInfo& info = result->layout.buffers[b];
    Buffer& buffer = world->buffer(info.name);
    const uint32_t element = element_bytes(buffer.dtype);
    std::vector<Said> said(info.bytes / element);
    for (const Piece& piece : result->layout.pieces) {
      if (piece.buffer == b) expand_piece(table, piece, element, &said, &fault);
    }
    if (!fault.empty()) return fault;
    for (const KindRange& range : result->ranges) {
      if (range.buffer != b) continue;
      for (uint64_t n = 0; n < range.count; ++n) {
        const uint64_t first = (range.offset + n * range.pitch) / element;
        for (uint64_t i = 0; i < range.bytes / element; ++i) {
          said.at(first + i).kind = range.kind;
          ++said.at(first + i).times;
        }
      }
    }
    for (size_t i = 0; i < said.size(); ++i) {
      const Origin truth = i < buffer.truth.size() ? buffer.truth[i] : Origin();
      ByteKind want = kind_of(truth);
      Origin from = said[i].kind == ByteKind::kCopied ? said[i].from : Origin();
      if (want == ByteKind::kCopied) {
        const DType dtype = table[static_cast<uint32_t>(truth.tensor)].dtype;
        const bool raw = dtype == buffer.dtype || buffer.dtype == DType::kU8;
        if (!raw)
          want =
              family_of(dtype) == family_of(buffer.dtype) ? ByteKind::kCast : ByteKind::kComputed;
        (raw ? homes : casts)[static_cast<size_t>(truth.tensor)][truth.element] += 1;
        if (!raw && want == ByteKind::kComputed) {
          casts[static_cast<size_t>(truth.tensor)].erase(truth.element);
        }
      }
      if (want == ByteKind::kConstant && said[i].kind == ByteKind::kComputed &&
          lost_in_computed(buffer, i)) {
        want = ByteKind::kComputed;
      }
      const bool right = said[i].times == 1 && said[i].kind == want &&
                         (want != ByteKind::kCopied || from == truth);
      if (right) continue;
      return info.name + " element " + std::to_string(i) + ": said " +
             describe(from, said[i].kind) + " (" + std::to_string(said[i].times) + " times), is " +
             describe(truth, want);
    }
  }
  for (uint32_t t = 0; t < table.size(); ++t) {
    Homes want;
    const DTypeInfo& type = dtype_info(table[t].dtype);
    const int64_t unit = type.unit_elements != 1 ? type.unit_bytes : 1;
    want.elements = table[t].bytes() / type.unit_bytes;
    for (uint64_t i = 0; i < want.elements; ++i) {
      const auto at = static_cast<int64_t>(i) * unit;
      const auto home = homes[t].find(at);
      const int times = home == homes[t].end() ? 0 : home->second;
      want.none += times == 0 ? 1 : 0;
      want.one += times == 1 ? 1 : 0;
      want.more += times > 1 ? 1 : 0;
      want.cast += times == 0 && casts[t].count(at) != 0 ? 1 : 0;
    }
    const Homes& got = result->homes[t];
    if (got.elements != want.elements || got.none != want.none || got.one != want.one ||
        got.more != want.more || got.cast != want.cast) {
      return table[t].name + ": homes " + std::to_string(got.none) + "/" + std::to_string(got.one) +
             "/" + std::to_string(got.more) + "/" + std::to_string(got.cast) + ", want " +
             std::to_string(want.none) + "/" + std::to_string(want.one) + "/" +
             std::to_string(want.more) + "/" + std::to_string(want.cast);
    }
  }
  uint64_t all = 0, kinds = 0;
  for (const BufferInfo& info : result->layout.buffers) all += info.bytes;
  for (const uint64_t bytes : result->kind_bytes) kinds += bytes;
  return all == kinds ? "" : "the kinds do not add up to all bytes";
}

}  // namespace wb::probe::test
