// Random compositions of what loaders do, compared cell by cell with the truth.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "world.h"

namespace wb::probe::test {
namespace {

using enum DType;

int64_t in(int64_t low, int64_t high) { return *rc::gen::inRange<int64_t>(low, high + 1); }

// A rearrangement of `a`, or a computation on it.
Array changed(const Array& a) {
  const auto rank = static_cast<int>(a.shape.size());
  if (rank == 0 || a.size() == 0) return a;
  const int dim = static_cast<int>(in(0, rank - 1));
  const int64_t extent = a.shape[static_cast<size_t>(dim)];
  switch (in(0, 11)) {
    case 0: {
      const int64_t step = in(1, 3);
      const int64_t first = in(0, extent - 1);
      return slice(a, dim, first, in(1, (extent - 1 - first) / step + 1), step);
    }
    case 1:
      return flip(a, dim);
    case 2: {
      std::vector<int> order;
      for (int d = 0; d < rank; ++d) order.push_back((d + 1 + dim) % rank);
      return transpose(a, order);
    }
    case 3:
      return pad(a, dim, extent + in(1, 3), static_cast<double>(in(0, 1)));
    case 4:
      return extent > 1 ? halves_swapped(a, dim) : a;
    case 5: {
      if (rank != 2) return a;
      int64_t n = in(1, 4), k = in(1, 4);
      while (a.shape[0] % n != 0) --n;
      while (a.shape[1] % k != 0) --k;
      return tiled(a, n, k);
    }
    case 6:
      return repeated(a, in(1, 3));
    case 7:
      return rank == 2 && a.shape[1] % 8 == 0 ? swizzled(a, 2, 4) : a;
    case 8:
      return reshape(a, {a.size()});
    case 9:
      return family_of(a.dtype) == Family::kFloat && in(0, 2) == 0
                 ? computed(a, [](double v) { return v * 4; })
                 : a;
    case 10:
      return family_of(a.dtype) == Family::kFloat && in(0, 2) == 0
                 ? computed(a, [](double v) { return std::exp(-v); })
                 : a;
    default:
      return interleave({a, flip(a, dim)}, dim);
  }
}

constexpr DType kTypes[] = {kBF16, kF32, kF16, kF8E4M3, kI8, kI32, kU8};

RC_GTEST_PROP(Property, AnyCompositionIsLearntExactly, ()) {
  std::vector<TensorInfo> tensors;
  const int64_t count = in(1, 5);
  const bool half = in(0, 3) == 0;
  for (int64_t t = 0; t < count; ++t) {
    DType dtype = kTypes[in(0, 6)];
    if (dtype == kF16 && !half) dtype = kBF16;
    TensorInfo info{"t" + std::to_string(t), dtype, {}};
    const int64_t rank = in(0, 3);
    for (int64_t d = 0; d < rank; ++d) info.shape.push_back(in(0, 9) == 0 ? 130 : in(1, 9));
    tensors.push_back(info);
  }
  World world(tensors);

  // What each cell of each buffer is: a plan of cells, made from one run over the true weights.
  struct Planned {
    std::string buffer;
    Array cells;
    int64_t offset;
  };
  std::vector<Planned> plans;
  const int64_t buffers = in(1, 4);
  for (int64_t b = 0; b < buffers; ++b) {
    Array all = world.weights(static_cast<uint32_t>(in(0, count - 1)));
    for (int64_t i = in(0, 4); i > 0; --i) all = changed(all);
    all = reshape(all, {all.size()});
    for (int64_t more = in(0, 2); more > 0; --more) {
      Array other = world.weights(static_cast<uint32_t>(in(0, count - 1)));
      if (other.dtype != all.dtype) continue;
      for (int64_t i = in(0, 3); i > 0; --i) other = changed(other);
      all = cat({all, reshape(other, {other.size()})}, 0);
    }
    RC_PRE(all.size() <= 60000);
    const std::string name = "b" + std::to_string(b);
    const int64_t before = in(0, 5), after = in(0, 5);
    world.add(name, all.dtype, {before + all.size() + after}, 0);
    plans.push_back({name, all, before});
  }
  // A computed cell is a function of its load: its bits follow the values of tensor 0.
  const auto loader = [&](const World::Fetch& get, World* to) {
    std::vector<Array> now;
    uint64_t pulse = 0;
    for (const TensorInfo& info : to->table().tensors()) {
      now.push_back(get(info.name));
      for (const Cell& cell : now.back().cells) pulse = pulse * 31 + cell.bits;
    }
    for (const Planned& plan : plans) {
      for (int64_t i = 0; i < plan.cells.size(); ++i) {
        Cell cell = plan.cells.cells[static_cast<size_t>(i)];
        if (cell.from.tensor >= 0) {
          cell.bits = now[static_cast<size_t>(cell.from.tensor)]
                          .cells[static_cast<size_t>(cell.from.element)]
                          .bits;
        } else if (cell.from.tensor == Origin::kComputed) {
          cell.bits = (pulse + static_cast<uint64_t>(i)) * 0x9E3779B97F4A7C15u >> 3;
        }
        to->store_cell(plan.buffer, plan.offset + i, cell);
      }
    }
  };
  Options options;
  options.restore = in(0, 1) == 0 ? Restore::kBackup : Restore::kReload;
  world.fill_with_garbage(static_cast<uint64_t>(in(0, 1000)));
  world.load_weights(loader);
  std::vector<std::vector<uint64_t>> before;
  for (Buffer& buffer : world.buffers()) before.push_back(buffer.storage);
  Prober prober(world.table(), options);
  add_buffers(&world, &prober);
  const Status status = run_probe(&world, loader, &prober);
  if (!status.ok()) RC_FAIL(status.to_string());
  const std::string fault = compare(&world, prober);
  if (!fault.empty()) RC_FAIL(fault);
  for (size_t i = 0; i < before.size(); ++i) RC_ASSERT(world.buffers()[i].storage == before[i]);
}

}  // namespace
}  // namespace wb::probe::test
