// Cost of balancing: the classes of deepseek-v3 from 256 trainers to 128 receivers (Megatron and
// FSDP), and random ones with many edges. One core.
#include "plan/balance.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>
#include <string>

#include "deepseek_classes.h"

namespace wb {
namespace {

using deepseek::fsdp, deepseek::megatron;
using deepseek::kReceivers, deepseek::kTrainers;

// `count` classes, each with its own few holders and needers.
std::vector<ByteClass> random_classes(uint32_t count) {
  std::mt19937_64 rng(7);
  const auto some = [&](uint32_t of, uint32_t wanted) {
    std::vector<uint32_t> list;
    for (uint32_t i = 0; i < wanted; ++i) list.push_back(static_cast<uint32_t>(rng() % of));
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  };
  std::vector<ByteClass> classes;
  for (uint32_t c = 0; c < count; ++c) {
    classes.push_back({1 + rng() % 1'000'000'000, some(kTrainers, 12), some(kReceivers, 12)});
  }
  return classes;
}

void run(benchmark::State& state, const std::vector<ByteClass>& classes, Policy policy) {
  const Cluster cluster = deepseek::cluster_of(kTrainers, kReceivers);
  double largest = 1, edges = 0;
  for (const ByteClass& c : classes) {
    edges += static_cast<double>(c.holders.size() + c.needers.size());
  }
  for (auto _ : state) {
    Result<Balance> result = balance(classes, cluster, policy);
    if (!result.ok()) {
      state.SkipWithError(result.status().to_string().c_str());
      return;
    }
    for (const LoadReport& load : result->loads) {
      if (load.kind == Bottleneck::kInsideHost) continue;
      largest =
          std::max(largest, static_cast<double>(load.largest) / static_cast<double>(load.bound));
    }
    state.SetLabel(std::string(policy_name(result->policy)) + " " +
                   std::to_string(result->nanoseconds / 1'000'000) + " ms");
  }
  state.counters["classes"] = static_cast<double>(classes.size());
  state.counters["edges"] = edges;
  state.counters["of_bound"] = largest;
}

void megatron_deepseek(benchmark::State& state) {
  run(state, megatron(), static_cast<Policy>(state.range(0)));
}
void fsdp_deepseek(benchmark::State& state) {
  run(state, fsdp(), static_cast<Policy>(state.range(0)));
}
void random_sets(benchmark::State& state) {
  run(state, random_classes(static_cast<uint32_t>(state.range(0))),
      static_cast<Policy>(state.range(1)));
}

BENCHMARK(megatron_deepseek)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);
BENCHMARK(fsdp_deepseek)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);
BENCHMARK(random_sets)
    ->ArgsProduct({{1'000, 4'000, 16'000}, {0, 1, 2, 3}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace wb

BENCHMARK_MAIN();
