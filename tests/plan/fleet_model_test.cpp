// Fleet plans of real models: exact counts against an independent one, loads against the bounds,
// and what each policy promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "layout/dtype.h"
#include "models.h"
#include "plan/fleet.h"
#include "plan/fleet_cache.h"
#include "plan/fleet_proof.h"

namespace wb::test {
namespace {

// By the edges of all pieces of a tensor: boxes of rules have step 1.
struct Count {
  uint64_t needed = 0;
  uint64_t stored = 0;
  uint64_t distinct = 0;
  std::map<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>, uint64_t> classes;
};

Count count(const ModelJob& job) {
  Count out;
  struct Held {
    Box box;
    uint32_t worker;
  };
  std::vector<std::vector<Held>> held[2];
  for (int s = 0; s < 2; ++s) {
    held[s].resize(job.model.table.size());
    for (uint32_t w = 0; w < job.sides[s].size(); ++w) {
      const WorkerLayout layout = job.sides[s].layout(w);
      for (const Piece& piece : layout.pieces) held[s][piece.tensor].push_back({piece.box, w});
      (s == 0 ? out.stored : out.needed) += layout.piece_bytes(job.model.table);
    }
  }
  for (uint32_t t = 0; t < job.model.table.size(); ++t) {
    const uint64_t unit = dtype_info(job.model.table[t].dtype).unit_bytes;
    const size_t rank = job.model.table[t].shape.size();
    std::vector<std::set<int64_t>> edges(2, std::set<int64_t>{0, 1});
    for (size_t d = 0; d < rank; ++d) {
      edges[d].clear();
      for (int s = 0; s < 2; ++s) {
        for (const Held& h : held[s][t]) {
          edges[d].insert(h.box.dim(static_cast<int>(d)).start);
          edges[d].insert(h.box.dim(static_cast<int>(d)).last() + 1);
        }
      }
    }
    for (auto y = edges[0].begin(); std::next(y) != edges[0].end(); ++y) {
      for (auto x = edges[1].begin(); std::next(x) != edges[1].end(); ++x) {
        std::pair<std::vector<uint32_t>, std::vector<uint32_t>> sets;
        const int64_t at[] = {*y, *x};
        for (int s = 0; s < 2; ++s) {
          std::vector<uint32_t>& set = s == 0 ? sets.first : sets.second;
          for (const Held& h : held[s][t]) {
            if (h.box.contains(std::span(at).first(rank))) set.push_back(h.worker);
          }
          set.erase(std::unique(set.begin(), set.end()), set.end());
        }
        if (sets.second.empty()) continue;
        const auto size = static_cast<uint64_t>((*std::next(y) - *y) * (*std::next(x) - *x)) * unit;
        out.distinct += size;
        out.classes[sets] += size;
      }
    }
  }
  return out;
}

void expect_counts(const ModelJob& job) {
  const Fleet fleet = job.fleet();
  FleetOptions options;
  options.policy = Policy::kDirect;
  const auto plan = plan_fleet(fleet, options);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  const Count counted = count(job);
  EXPECT_EQ(plan->report.needed_bytes, counted.needed);
  EXPECT_EQ(plan->report.stored_bytes, counted.stored);
  EXPECT_EQ(plan->report.distinct_bytes, counted.distinct);
  std::map<std::pair<std::vector<uint32_t>, std::vector<uint32_t>>, uint64_t> got;
  for (const ByteClass& c : plan->classes()) got[{c.holders, c.needers}] += c.bytes;
  EXPECT_EQ(got.size(), plan->classes().size());
  EXPECT_EQ(got, counted.classes);
}

TEST(FleetModel, CountsOfADenseModel) {
  const Model model = qwen3_0_6b();
  for (const char* trainer :
       {"megatron:tp=4,pp=2,dp=2", "fsdp:shards=16", "fsdp:shards=6,replicas=2",
        "fsdp:shards=7,flat=1", "replicated:n=2"}) {
    for (const char* rollout : {"vllm:tp=2,engines=3", "vllm:tp=8", "vllm:pp=2,tp=2"}) {
      SCOPED_TRACE(std::string(trainer) + " -> " + rollout);
      expect_counts(ModelJob(model, trainer, rollout));
    }
  }
}

TEST(FleetModel, CountsOfAModelWithExperts) {
  const Model model = deepseek_v3(4);
  expect_counts(
      ModelJob(model, "megatron:tp=4,pp=2,dp=4,ep=8,etp=1", "vllm:tp=1,dp=8,ep=8,engines=2"));
  expect_counts(ModelJob(model, "fsdp:shards=16", "vllm:tp=4,dp=2"));
}

// The two sides of the numbers.
TEST(FleetModel, DeepSeekOverTwoHundredAndFiftySix) {
  const Model model = deepseek_v3();
  const ModelJob job(model, "megatron:tp=8,pp=4,dp=8,ep=8,etp=1",
                     "vllm:tp=1,dp=32,ep=32,engines=4");
  EXPECT_EQ(job.sides[0].families.size(), 32u);
  EXPECT_EQ(job.sides[1].families.size(), 32u);
  const Fleet fleet = job.fleet();
  for (const Policy policy : {Policy::kDirect, Policy::kHost, Policy::kFanout}) {
    SCOPED_TRACE(policy_name(policy));
    FleetOptions options;
    options.policy = policy;
    const FleetPlan plan = *plan_fleet(fleet, options);
    EXPECT_EQ(plan.report.atoms, 47'971u);
    EXPECT_EQ(plan.classes().size(), 164u);
    EXPECT_LE(plan.report.cuts, fleet.sources().size() + fleet.receivers().size());
    for (const LoadReport& load : plan.balance.loads) {
      const uint64_t slack = load.kind == Bottleneck::kReceiverEgress ? 1000 : 10'000;
      if (load.kind != plan.balance.binds) continue;
      EXPECT_LE(load.largest, load.bound + load.bound / slack + options.cut_bytes);
    }
    uint64_t left_trainers = 0;
    std::map<uint32_t, uint64_t> entered;  // by receiver host
    uint64_t written = 0;
    for (const FleetEdge& edge : fleet_edges(plan)) {
      const uint32_t host = fleet.cluster().receivers[edge.receiver].host;
      written += edge.bytes;
      if (!edge.from_peer) left_trainers += edge.bytes;
      if (!edge.from_peer || fleet.cluster().receivers[edge.from].host != host) {
        entered[host] += edge.bytes;
      }
    }
    EXPECT_EQ(written, plan.report.needed_bytes);
    if (policy == Policy::kFanout) {
      EXPECT_EQ(left_trainers, plan.report.distinct_bytes);
    }
    if (policy != Policy::kDirect) {
      std::map<uint32_t, uint64_t> once;
      for (const ByteClass& c : plan.classes()) {
        std::set<uint32_t> hosts;
        for (const uint32_t r : c.needers) hosts.insert(fleet.cluster().receivers[r].host);
        for (const uint32_t h : hosts) once[h] += c.bytes;
      }
      EXPECT_EQ(entered, once);
    }
  }
}

TEST(FleetModel, PartsOfARealModelAreProved) {
  const Model model = deepseek_v3(4);
  const ModelJob job(model, "megatron:tp=4,pp=2,dp=4,ep=8,etp=1", "vllm:tp=2,dp=4,ep=8,engines=2");
  const Fleet fleet = job.fleet();
  for (const Policy policy : {Policy::kDirect, Policy::kHost, Policy::kFanout}) {
    FleetOptions options;
    options.policy = policy;
    const FleetPlan plan = *plan_fleet(fleet, options);
    std::vector<FleetPart> parts;
    FleetCache cache;
    for (uint32_t r = 0; r < fleet.receivers().size(); ++r) {
      parts.push_back(*make_part(fleet, plan, r, &cache));
    }
    const Status proved = prove_fleet(fleet, parts);
    EXPECT_TRUE(proved.ok()) << policy_name(policy) << ": " << proved.to_string();
  }
}

// Forty thousand pieces of one row: planned, or refused in seconds, never minutes.
TEST(FleetModel, ManyThinPiecesArePlannedOrRefused) {
  const TensorTable table = *TensorTable::make({{"t", DType::kBF16, {40'000, 8}}});
  OwnedWorker source;
  source.name = "source";
  source.add_buffer(640'000, 0);
  for (int64_t i = 0; i < 40'000; ++i) {
    source.layout.pieces.push_back(dense_rows(table, 0, i, i + 1, 0, (39'999 - i) * 16));
  }
  OwnedWorker receiver = source;
  receiver.name = "receiver";
  const PlanWorker sources[] = {source.view()};
  const PlanWorker receivers[] = {receiver.view()};
  const auto plan = make_plan(table, sources, receivers, 0);
  if (!plan.ok()) {
    EXPECT_EQ(plan.status().code(), Code::kUnsupported) << plan.status().to_string();
    EXPECT_EQ(plan.status().facts().tensor, "t");
  }
}

}  // namespace
}  // namespace wb::test
