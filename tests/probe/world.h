// A small model of a framework for tests: tensors whose cells carry their bits and, beside them,
// where they came from, so that one run of a loader gives both what the library may look at and the
// truth that it must find.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "layout/tensor_table.h"
#include "probe/prober.h"

namespace wb::probe::test {

// Where a cell's value comes from.
struct Origin {
  static constexpr int64_t kUntouched = -1;
  static constexpr int64_t kConstant = -2;
  static constexpr int64_t kComputed = -3;
  int64_t tensor = kUntouched;  // index into the table, or one of the above
  int64_t element = 0;          // row-major
  bool operator==(const Origin&) const = default;
};

struct Cell {
  uint64_t bits = 0;
  Origin from;
};

// Row-major. Bytes of packed types are cells of their own.
struct Array {
  DType dtype = DType::kU8;
  std::vector<int64_t> shape;
  std::vector<Cell> cells;

  int64_t size() const { return static_cast<int64_t>(cells.size()); }
};

// ---- What loaders do
// -----------------------------------------------------------------------------

Array constant(DType dtype, std::vector<int64_t> shape, double value);
Array slice(const Array& a, int dim, int64_t first, int64_t count, int64_t step = 1);
Array flip(const Array& a, int dim);
Array transpose(const Array& a, const std::vector<int>& order);
Array reshape(const Array& a, std::vector<int64_t> shape);
Array cat(const std::vector<Array>& parts, int dim);
Array stack(const std::vector<Array>& parts);
// Along dimension `dim`: the first of each, the second of each, ...
Array interleave(const std::vector<Array>& parts, int dim);
Array pad(const Array& a, int dim, int64_t size, double value);
// [N, K] in tiles of n rows and k columns: [N/n, K/k, n, k], flat.
Array tiled(const Array& a, int64_t n, int64_t k);
Array halves_swapped(const Array& a, int dim);
// Chunks of `chunk` columns of row r stand at (number XOR (r mod rows)).
Array swizzled(const Array& a, int64_t chunk, int64_t rows);
Array repeated(const Array& a, int64_t times);
Array cast(const Array& a, DType dtype);
// Elementwise, on the values; computed unless the value is constant.
Array computed(const Array& a, const std::function<double(double)>& f);
Array sum(const Array& a, const Array& b);
// As int8 with one scale for all.
Array quantised(const Array& a, double* scale);

// ---- The worker
// ------------------------------------------------------------------------------------

struct Buffer {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<int64_t> shape;
  std::vector<uint64_t> storage;  // aligned
  std::vector<Origin> truth;      // per element, as the last load left it
  uint64_t slack = 0;             // bytes behind the array

  std::byte* data() { return reinterpret_cast<std::byte*>(storage.data()); }
  uint64_t elements() const;
  uint64_t bytes() const;
};

class World {
 public:
  using Fetch = std::function<Array(const std::string&)>;
  using Loader = std::function<void(const Fetch&, World*)>;

  explicit World(std::vector<TensorInfo> tensors);
  void add(std::string name, DType dtype, std::vector<int64_t> shape, uint64_t slack = 0);
  // Writes the cells into the buffer, from element `at` on.
  void store(const std::string& buffer, const Array& a, int64_t at = 0);
  void store_cell(const std::string& buffer, int64_t at, const Cell& cell);
  Buffer& buffer(const std::string& name) { return buffers_.at(by_name_.at(name)); }
  std::vector<Buffer>& buffers() { return buffers_; }
  const TensorTable& table() const { return table_; }

  // The tensors with the values of a checkpoint.
  Array weights(uint32_t tensor) const;
  Array probe_tensor(const Prober& prober, uint32_t tensor) const;
  void load_weights(const Loader& loader);
  void fill_with_garbage(uint64_t seed);

 private:
  TensorTable table_;
  std::vector<Buffer> buffers_;
  std::map<std::string, size_t> by_name_;
};

// Runs all passes. `loader` may throw.
Status run_probe(World* world, const World::Loader& loader, Prober* prober, bool listed = true);
void add_buffers(World* world, Prober* prober);

// What is wrong with the result, compared cell by cell with the truth; empty when nothing is.
std::string compare(World* world, const Prober& prober);

}  // namespace wb::probe::test
