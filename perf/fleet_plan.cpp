// What a fleet's plan costs: time and peak memory, one core, from layouts in memory.
//
//   fleet_plan --benchmark_filter=Megatron
//
// Peak memory is that of the process, so it counts the layouts too; run one case per process for
// it.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <vector>

#include "models.h"
#include "plan/fleet.h"
#include "plan/fleet_cache.h"
#include "plan/fleet_proof.h"

namespace wb {
namespace {

using Job = test::ModelJob;

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// All parts at once where they are to be kept, else one after the other.
void plan_all(benchmark::State& state, const Job& job, Policy policy, bool keep) {
  const double before = peak_mib();
  uint64_t runs = 0;
  uint64_t reads = 0;
  FleetReport report;
  for (auto _ : state) {
    const Fleet fleet = job.fleet();
    FleetOptions options;
    options.policy = policy;
    const FleetPlan plan = *plan_fleet(fleet, options);
    report = plan.report;
    FleetCache cache;  // receivers with equal layouts share their runs
    runs = reads = 0;
    std::vector<FleetPart> parts;
    for (uint32_t r = 0; r < fleet.receivers().size(); ++r) {
      FleetPart part = *make_part(fleet, plan, r, &cache);
      for (const PartList& list : part.lists) {
        runs += list.runs.size();
        reads += list.reads;
      }
      if (keep) parts.push_back(std::move(part));
    }
    benchmark::DoNotOptimize(parts.data());
  }
  state.counters["atoms"] = static_cast<double>(report.atoms);
  state.counters["cuts"] = static_cast<double>(report.cuts);
  state.counters["runs"] = static_cast<double>(runs);
  state.counters["reads"] = static_cast<double>(reads);
  state.counters["peak_MiB"] = peak_mib();
  state.counters["grown_MiB"] = peak_mib() - before;
}

void only_plan(benchmark::State& state, const Job& job) {
  for (auto _ : state) {
    const Fleet fleet = job.fleet();
    benchmark::DoNotOptimize(plan_fleet(fleet, FleetOptions{}));
  }
}

void prove_all(benchmark::State& state, const Job& job, Policy policy) {
  const Fleet fleet = job.fleet();
  FleetOptions options;
  options.policy = policy;
  const FleetPlan plan = *plan_fleet(fleet, options);
  std::vector<FleetPart> parts;
  for (uint32_t r = 0; r < fleet.receivers().size(); ++r) {
    parts.push_back(*make_part(fleet, plan, r));
  }
  for (auto _ : state) {
    const Status proved = prove_fleet(fleet, parts);
    if (!proved.ok()) {
      state.SkipWithError(proved.to_string().c_str());
      break;
    }
  }
}

constexpr char kMegatron[] = "megatron:tp=8,pp=4,dp=8,ep=8,etp=1";
constexpr char kFsdp[] = "fsdp:shards=256";
constexpr char kRollout[] = "vllm:tp=1,dp=32,ep=32,engines=4";

const Job& megatron() {
  static const Job job(test::deepseek_v3(), kMegatron, kRollout);
  return job;
}
const Job& fsdp() {
  static const Job job(test::deepseek_v3(), kFsdp, kRollout);
  return job;
}

const Job& fsdp64() {
  static const Job job(test::deepseek_v3(), "fsdp:shards=64", "replicated:n=128");
  return job;
}

void BM_Megatron(benchmark::State& state) {
  plan_all(state, megatron(), static_cast<Policy>(state.range(0)), true);
}
void BM_MegatronPlanOnly(benchmark::State& state) { only_plan(state, megatron()); }
void BM_MegatronProof(benchmark::State& state) {
  prove_all(state, megatron(), static_cast<Policy>(state.range(0)));
}
void BM_Fsdp(benchmark::State& state) { plan_all(state, fsdp(), Policy::kDirect, false); }
void BM_FsdpPlanOnly(benchmark::State& state) { only_plan(state, fsdp()); }

// More shards than experts: each expert is cut in 512, 15 million pieces if they were written out.
void BM_FsdpFine(benchmark::State& state) {
  const Job job(test::deepseek_v3(), "fsdp:shards=512", kRollout);
  const double before = peak_mib();
  uint64_t runs = 0;
  FleetReport report;
  for (auto _ : state) {
    const Fleet fleet = job.fleet();
    FleetOptions options;
    options.policy = Policy::kDirect;
    const FleetPlan plan = *plan_fleet(fleet, options);
    report = plan.report;
    const FleetPart part = *make_part(fleet, plan, 0);
    for (const PartList& list : part.lists) runs += list.runs.size();
  }
  uint64_t pieces = 0;
  for (const SideMember& member : job.sides[0].members) {
    pieces += job.sides[0].families[member.family].base.pieces.size();
  }
  state.counters["families"] = static_cast<double>(job.sides[0].families.size());
  state.counters["pieces"] = static_cast<double>(pieces);
  state.counters["atoms"] = static_cast<double>(report.atoms);
  state.counters["runs_of_one"] = static_cast<double>(runs);
  state.counters["peak_MiB"] = peak_mib();
  state.counters["grown_MiB"] = peak_mib() - before;
}

// What one receiver of a session does when it has all manifests: whole layouts of every worker in,
// its own reads out. Arguments: whether equal layouts are known to be equal; whether the plan
// before, with one receiver fewer, left its cache.
void BM_OneReceiver(benchmark::State& state) {
  const Job& job = fsdp64();
  std::vector<WorkerLayout> layouts[2];
  std::vector<PlanWorker> workers[2];
  for (size_t side = 0; side < 2; ++side) {
    const Side& all = job.sides[side];
    for (uint32_t w = 0; w < all.size(); ++w) layouts[side].push_back(all.layout(w));
    for (uint32_t w = 0; w < all.size(); ++w) {
      const FleetWorker& worker = job.workers[side][w];
      workers[side].push_back(
          {worker.name, &layouts[side][w], worker.placement, worker.region_bytes, {}});
      if (state.range(0) != 0) {
        workers[side].back().mapping = layout_digest(job.model.table, layouts[side][w]);
      }
    }
  }
  for (auto _ : state) {
    FleetCache cache;
    const std::span<const PlanWorker> receivers(workers[1]);
    if (state.range(1) != 0) {
      state.PauseTiming();
      (void)make_plan(job.model.table, workers[0], receivers.first(receivers.size() - 1), 0,
                      &cache);
      state.ResumeTiming();
    }
    const auto plan = make_plan(job.model.table, workers[0], receivers, 0, &cache);
    if (!plan.ok()) state.SkipWithError(plan.status().to_string().c_str());
  }
  state.counters["receivers"] = static_cast<double>(workers[1].size());
}

// The number of pieces grows with the layers.
void BM_SweepLayers(benchmark::State& state) {
  const Job job(test::deepseek_v3(state.range(0)), kMegatron, kRollout);
  plan_all(state, job, Policy::kDirect, false);
  uint64_t pieces = 0;
  for (const Side& side : job.sides) {
    for (const SideMember& member : side.members) {
      pieces += side.families[member.family].base.pieces.size();
    }
  }
  state.counters["pieces"] = static_cast<double>(pieces);
  state.SetComplexityN(static_cast<int64_t>(pieces));
}

BENCHMARK(BM_Megatron)->Arg(0)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_MegatronPlanOnly)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_MegatronProof)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Fsdp)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(BM_FsdpPlanOnly)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_FsdpFine)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(BM_OneReceiver)
    ->Args({0, 0})
    ->Args({1, 0})
    ->Args({1, 1})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK(BM_SweepLayers)
    ->Arg(8)
    ->Arg(16)
    ->Arg(31)
    ->Arg(61)
    ->Unit(benchmark::kMillisecond)
    ->Complexity();

}  // namespace
}  // namespace wb

BENCHMARK_MAIN();
