// Cost of balancing: the classes of deepseek-v3 from 256 trainers to 128 receivers (Megatron and
// FSDP), and random ones with many edges. One core.
#include "plan/balance.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace wb {
namespace {

constexpr uint32_t kTrainers = 256;
constexpr uint32_t kReceivers = 128;
constexpr uint32_t kEngines = 4;
constexpr uint32_t kExpertRanks = 32;  // of one engine
constexpr uint32_t kOnHost = 8;

Cluster cluster_of(uint32_t sources, uint32_t receivers) {
  Cluster cluster;
  const auto seat = [&](uint32_t workers, std::vector<Seat>* seats) {
    for (uint32_t w = 0; w < workers; ++w) {
      if (w % kOnHost == 0) {
        Host host;
        host.name = std::to_string(cluster.hosts.size());
        host.nics.resize(kOnHost, Nic{50'000'000'000, true, 0});
        host.inside_bytes_per_second = 450'000'000'000;
        cluster.hosts.push_back(host);
      }
      seats->push_back({static_cast<uint32_t>(cluster.hosts.size() - 1), w % kOnHost});
    }
  };
  seat(sources, &cluster.sources);
  seat(receivers, &cluster.receivers);
  return cluster;
}

std::vector<uint32_t> every(uint32_t first, uint32_t step, uint32_t count) {
  std::vector<uint32_t> list;
  for (uint32_t i = 0; i < count; ++i) list.push_back(first + i * step);
  return list;
}

// tp=8,pp=4,dp=8,ep=8: 164 classes. Experts are most of the bytes.
std::vector<ByteClass> megatron() {
  constexpr uint32_t kStages = 4, kTensor = 8, kExpert = 8, kPerStage = kTrainers / kStages;
  std::vector<ByteClass> classes;
  for (uint32_t stage = 0; stage < kStages; ++stage) {
    const uint32_t first = stage * kPerStage;
    classes.push_back({40'003'584, every(first, 1, kPerStage), every(0, 1, kReceivers)});
    for (uint32_t t = 0; t < kTensor; ++t) {
      classes.push_back(
          {1'071'644'672, every(first + t, kTensor, kPerStage / kTensor), every(0, 1, kReceivers)});
    }
    for (uint32_t r = 0; r < kExpertRanks; ++r) {
      const uint32_t expert = r / (kExpertRanks / kExpert);
      classes.push_back({10'217'324'544, every(first + expert, kExpert, kPerStage / kExpert),
                         every(r, kExpertRanks, kEngines)});
    }
  }
  return classes;
}

// Every trainer holds its part of everything: 8448 classes.
std::vector<ByteClass> fsdp() {
  std::vector<ByteClass> classes;
  for (uint32_t s = 0; s < kTrainers; ++s) {
    classes.push_back({134'000'000 + s, {s}, every(0, 1, kReceivers)});
    for (uint32_t r = 0; r < kExpertRanks; ++r) {
      classes.push_back({159'645'696 + r, {s}, every(r, kExpertRanks, kEngines)});
    }
  }
  return classes;
}

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
  const Cluster cluster = cluster_of(kTrainers, kReceivers);
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
