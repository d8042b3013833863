// What reading buffers back costs: run detection in elements a second, for planes as loaders leave
// them, beside memcpy; and a whole probing of many tensors, with its memory.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "probe/prober.h"
#include "probe/runs.h"

namespace wb::probe {
namespace {

constexpr uint64_t kElements = uint64_t{64} << 20;
constexpr int64_t kWidth = 4096;

template <typename T>
T take(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "%s\n", result.status().to_string().c_str());
  std::exit(1);
}
void take(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

// The digit of element i, for each kind of plane.
enum Plane { kNumber, kRows, kColumns, kPacked };
uint16_t digit(Plane plane, uint64_t i) {
  switch (plane) {
    case kNumber:
      return 77;
    case kRows:
      return static_cast<uint16_t>(i / kWidth % 16384);
    case kColumns:
      return static_cast<uint16_t>(i % kWidth);
    case kPacked:  // tiles of 16 rows and 2 columns: the column
      return static_cast<uint16_t>(i / 32 % (kWidth / 2) * 2 + i % 2);
  }
  return 0;
}

std::vector<uint16_t> plane_of(Plane plane, const Coding& coding) {
  std::vector<uint16_t> elements(kElements);
  for (uint64_t i = 0; i < kElements; ++i) {
    coding.write(digit(plane, i), reinterpret_cast<std::byte*>(&elements[i]));
  }
  return elements;
}

void read_plane(benchmark::State& state) {
  const Coding coding = index_coding(DType::kBF16, false);
  const auto elements = plane_of(static_cast<Plane>(state.range(0)), coding);
  const auto* bytes = reinterpret_cast<const std::byte*>(elements.data());
  size_t kept = 0;
  for (auto _ : state) {
    BlockStore blocks(uint64_t{1} << 30, 1);
    const auto segments = read_segments(coding, bytes, kElements, 0, &blocks);
    kept = segments.size() * sizeof(Segment) + blocks.bytes();
    benchmark::DoNotOptimize(segments.data());
  }
  state.counters["elements/s"] = benchmark::Counter(static_cast<double>(kElements),
                                                    benchmark::Counter::kIsIterationInvariantRate);
  state.counters["kept/plane"] = static_cast<double>(kept) / (kElements * 2);
}
BENCHMARK(read_plane)->DenseRange(kNumber, kPacked)->Unit(benchmark::kMillisecond);

void copy_plane(benchmark::State& state) {
  const std::vector<uint16_t> from(kElements, 7);
  std::vector<uint16_t> to(kElements);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), kElements * 2);
    benchmark::DoNotOptimize(to.data());
  }
  state.counters["elements/s"] = benchmark::Counter(static_cast<double>(kElements),
                                                    benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(copy_plane)->Unit(benchmark::kMillisecond);

// The tensor table of DeepSeek-V3: 61 layers, 58 of them with 256 experts of three matrices and
// their scales; all dimensions divided by `scale` so that one machine holds the buffers.
std::vector<TensorInfo> deepseek(int64_t scale) {
  std::vector<TensorInfo> all;
  const auto add = [&](std::string name, DType dtype, std::vector<int64_t> shape) {
    for (int64_t& extent : shape) extent = std::max<int64_t>(1, extent / scale);
    all.push_back({std::move(name), dtype, std::move(shape)});
  };
  const auto matrix = [&](const std::string& name, int64_t rows, int64_t columns) {
    add(name + ".weight", DType::kBF16, {rows, columns});
  };
  for (int layer = 0; layer < 61; ++layer) {
    const std::string in = "model.layers." + std::to_string(layer) + ".";
    matrix(in + "self_attn.q_a_proj", 1536, 7168);
    matrix(in + "self_attn.q_b_proj", 24576, 1536);
    matrix(in + "self_attn.kv_a_proj_with_mqa", 576, 7168);
    matrix(in + "self_attn.kv_b_proj", 32768, 512);
    matrix(in + "self_attn.o_proj", 7168, 16384);
    for (const char* norm : {"input", "post_attention", "q_a", "kv_a"}) {
      add(in + norm + "_layernorm.weight", DType::kBF16, {7168});
    }
    const int experts = layer < 3 ? 0 : 257;  // the last is the shared one
    for (int e = 0; e < std::max(experts, 1); ++e) {
      const std::string mlp = in + "mlp." + (experts == 0 ? "" : std::to_string(e) + ".");
      matrix(mlp + "gate_proj", 2048, 7168);
      matrix(mlp + "up_proj", 2048, 7168);
      matrix(mlp + "down_proj", 7168, 2048);
    }
    if (experts != 0) matrix(in + "mlp.gate", 256, 7168);
  }
  matrix("model.embed_tokens", 129280, 7168);
  matrix("lm_head", 129280, 7168);
  add("model.norm.weight", DType::kBF16, {7168});
  return all;
}

// A loader that copies each tensor row by row into one buffer of the layer's kind.
void whole_probing(benchmark::State& state) {
  const TensorTable table = take(TensorTable::make(deepseek(state.range(0))));
  const uint64_t bytes = table.bytes();
  auto memory = std::make_unique<std::byte[]>(bytes);
  std::memset(memory.get(), 1, bytes);
  double load = 0, read = 0, solve = 0, peak = 0, passes = 0;
  for (auto _ : state) {
    Options options;
    options.restore = Restore::kReload;
    Prober prober(table, options);
    uint64_t at = 0;
    for (const TensorInfo& info : table.tensors()) {
      take(prober.add_buffer({info.name, info.dtype, info.shape, info.bytes()}, &memory[at]));
      at += info.bytes();
    }
    for (;;) {
      const Pass pass = take(prober.begin_pass());
      if (pass.kind == PassKind::kDone) break;
      at = 0;
      for (size_t t = 0; pass.kind == PassKind::kLoad && t < table.size(); ++t) {
        const TensorView view = take(prober.view(t));
        const bool matrix = view.probed->rank == 2;
        const int64_t rows = matrix ? view.probed->shape[0] : 1;
        const int64_t columns = view.probed->shape[matrix ? 1 : 0];
        const int64_t stride = view.stride[matrix ? 1 : 0];
        for (int64_t r = 0; r < rows; ++r) {
          const std::byte* row = view.data + (matrix ? r * view.stride[0] : 0);
          auto* to = reinterpret_cast<uint16_t*>(&memory[at]);
          if (stride == 2) {
            std::memcpy(to, row, static_cast<size_t>(columns) * 2);
          } else {
            uint16_t value;
            std::memcpy(&value, row, 2);
            std::fill(to, to + columns, value);
          }
          at += static_cast<uint64_t>(columns) * 2;
        }
      }
      take(prober.end_pass({}, false));
    }
    const Probed& result = *prober.result();
    if (result.kind_bytes[static_cast<size_t>(ByteKind::kCopied)] != bytes) {
      state.SkipWithError("something is not copied");
    }
    load = std::chrono::duration<double>(result.load).count();
    read = std::chrono::duration<double>(result.read).count();
    solve = std::chrono::duration<double>(result.solve).count();
    peak = static_cast<double>(result.peak_bytes);
    passes = result.passes;
  }
  state.counters["tensors"] = static_cast<double>(table.size());
  state.counters["GB"] = static_cast<double>(bytes) / 1e9;
  state.counters["passes"] = passes;
  state.counters["load_s"] = load;
  state.counters["read_s"] = read;
  state.counters["solve_s"] = solve;
  state.counters["peak/bytes"] = peak / static_cast<double>(bytes);
}
BENCHMARK(whole_probing)->Arg(64)->Arg(32)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace wb::probe

BENCHMARK_MAIN();
