// The proof is right exactly when the oracle is: over valid plans, plans cut in other ways, and
// plans with one number changed.
#include "plan/proof.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "oracle.h"
#include "plan/plan.h"
#include "world.h"

namespace wb::test {
namespace {

using Rng = std::mt19937_64;

constexpr int kWorlds = 5;  // per seed of RapidCheck

uint64_t below(Rng& rng, uint64_t n) {
  return std::uniform_int_distribution<uint64_t>(0, n - 1)(rng);
}

void refresh_totals(Plan* plan) {
  plan->bytes = 0;
  for (ReadList& list : plan->lists) {
    list.bytes = list.reads = 0;
    for (const Run& run : list.runs) {
      list.bytes += run.length * run.count;
      list.reads += run.count;
    }
    plan->bytes += list.bytes;
  }
}

// The same reads as other runs: rows apart, cut at any byte, in any order.
Plan recut(const Plan& plan, Rng& rng) {
  Plan other = plan;
  for (ReadList& list : other.lists) {
    std::vector<Run> runs;
    for (const Run& run : list.runs) {
      for (uint64_t row = 0; row < run.count; ++row) {
        Run rest = run;
        rest.remote_offset += row * static_cast<uint64_t>(run.remote_pitch);
        rest.local_offset += row * static_cast<uint64_t>(run.local_pitch);
        rest.count = 1;
        while (rest.length > 1 && below(rng, 2) == 0) {
          Run head = rest;
          head.length = 1 + below(rng, rest.length - 1);
          rest.length -= head.length;
          rest.remote_offset += head.length;
          rest.local_offset += head.length;
          runs.push_back(head);
        }
        runs.push_back(rest);
      }
    }
    std::shuffle(runs.begin(), runs.end(), rng);
    list.runs = runs;
  }
  refresh_totals(&other);
  return other;
}

uint64_t changed(uint64_t value, Rng& rng) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  switch (below(rng, 10)) {
    case 0:
      return value + 1;
    case 1:
      return value - 1;
    case 2:
      return value + below(rng, 16);
    case 3:
      return value - below(rng, 16);
    case 4:
      return below(rng, 64);
    case 5:
      return value ^ (uint64_t{1} << below(rng, 64));
    case 6:
      return 0 - value;
    case 7:
      return value * 2;
    case 8:
      return kMax - below(rng, 4);
    default:
      return (kMax / 2 + 1) + below(rng, 3) - 1;
  }
}

template <typename T>
void change(T* number, Rng& rng) {
  *number = static_cast<T>(changed(static_cast<uint64_t>(*number), rng));
}

// One number of the plan, anywhere in it.
void mutate(Plan* plan, Rng& rng) {
  if (plan->lists.empty()) return change(&plan->bytes, rng);
  ReadList& list = plan->lists[below(rng, plan->lists.size())];
  Run& run = list.runs[below(rng, list.runs.size())];
  switch (below(rng, 12)) {
    case 0:
      return change(&run.remote_region, rng);
    case 1:
      return change(&run.local_region, rng);
    case 2:
      return change(&run.remote_offset, rng);
    case 3:
      return change(&run.local_offset, rng);
    case 4:
      return change(&run.length, rng);
    case 5:
      return change(&run.count, rng);
    case 6:
      return change(&run.remote_pitch, rng);
    case 7:
      return change(&run.local_pitch, rng);
    case 8:
      return change(&list.source, rng);
    case 9:
      return change(&list.bytes, rng);
    case 10:
      return change(&list.reads, rng);
    default:
      return change(&plan->bytes, rng);
  }
}

// Changes that keep the totals, so that only the bytes themselves can give them away.
void mutate_in_balance(Plan* plan, Rng& rng) {
  if (plan->lists.empty()) return;
  ReadList& list = plan->lists[below(rng, plan->lists.size())];
  Run& run = list.runs[below(rng, list.runs.size())];
  ReadList& list2 = plan->lists[below(rng, plan->lists.size())];
  Run& run2 = list2.runs[below(rng, list2.runs.size())];
  switch (below(rng, 6)) {
    case 0:
      std::swap(run.remote_offset, run2.remote_offset);
      break;
    case 1:
      std::swap(run.local_offset, run2.local_offset);
      break;
    case 2:
      std::swap(run.length, run.count);
      break;
    case 3:
      std::swap(run.remote_pitch, run.local_pitch);
      break;
    case 4:
      run = run2;
      break;
    default:
      ++run.length;
      --run2.length;
  }
  if (below(rng, 2) == 0) refresh_totals(plan);
}

// The verdicts agree; says how when they do not.
void expect_same_verdict(const World& world, const Plan& plan) {
  const std::string fault = fault_of(world, plan);
  const Status proof = world.prove(plan);
  if (proof.ok() != fault.empty()) {
    RC_FAIL("oracle: '" + fault + "', proof: " + proof.to_string());
  }
  if (!proof.ok()) RC_ASSERT(proof.code() == Code::kUnproven);
}

RC_GTEST_PROP(ProofProperty, AcceptsTheSameReadsCutInAnyWay, (uint64_t seed)) {
  Rng rng(seed);
  for (int w = 0; w < kWorlds; ++w) {
    const World world = random_world(rng());
    const Plan plan = recut(*world.plan(), rng);
    RC_ASSERT(fault_of(world, plan) == "");
    const Status proof = world.prove(plan);
    if (!proof.ok()) RC_FAIL(proof.to_string());
  }
}

RC_GTEST_PROP(ProofProperty, JudgesOneChangedNumberAsTheOracleDoes, (uint64_t seed)) {
  Rng rng(seed);
  for (int w = 0; w < kWorlds; ++w) {
    const World world = random_world(rng());
    const Plan plan = *world.plan();
    for (int i = 0; i < 20; ++i) {
      Plan mutant = plan;
      mutate(&mutant, rng);
      expect_same_verdict(world, mutant);
    }
  }
}

RC_GTEST_PROP(ProofProperty, JudgesChangesBehindRightTotalsAsTheOracleDoes, (uint64_t seed)) {
  Rng rng(seed);
  for (int w = 0; w < kWorlds; ++w) {
    const World world = random_world(rng());
    const Plan plan = below(rng, 2) == 0 ? *world.plan() : recut(*world.plan(), rng);
    for (int i = 0; i < 20; ++i) {
      Plan mutant = plan;
      mutate_in_balance(&mutant, rng);
      expect_same_verdict(world, mutant);
    }
  }
}

// The mutants are mostly wrong plans: the properties above are not vacuous.
TEST(ProofProperty, MutantsAreWrongInManyWays) {
  std::map<std::string, int> faults;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const World world = random_world(seed);
    Rng rng(seed);
    for (int i = 0; i < 10; ++i) {
      Plan mutant = *world.plan();
      i % 2 == 0 ? mutate(&mutant, rng) : mutate_in_balance(&mutant, rng);
      ++faults[fault_of(world, mutant)];
    }
  }
  for (const char* fault : {"a run without bytes", "no such remote region", "no such local region",
                            "reads outside the region", "writes outside the region",
                            "written twice", "wrong bytes of a list", "wrong reads of a list",
                            "no such source", "wrong bytes of the plan",
                            "a needed byte is not written", "a byte comes from the wrong place"}) {
    EXPECT_GE(faults[fault], 5) << fault;
  }
}

// A world of one tensor of 4 x 6 bytes, held and needed whole, with room around it.
class OneTensor : public ::testing::Test {
 protected:
  OneTensor() {
    world_.table = *TensorTable::make({TensorInfo{"w", DType::kU8, {4, 6}}});
    for (OwnedWorker* worker : {&world_.receiver, &world_.sources.emplace_back()}) {
      worker->name = worker == &world_.receiver ? "receiver" : "source";
      worker->add_buffer(32, 0, 8);
      worker->layout.pieces.push_back(dense_rows(world_.table, 0, 0, 4, 0, 4));
    }
    plan_ = *world_.plan();
  }
  wb::Run& run() { return plan_.lists[0].runs[0]; }
  std::string verdict() { return world_.prove(plan_).message(); }

  World world_;
  Plan plan_;
};

TEST_F(OneTensor, IsOneRunAndProved) {
  ASSERT_EQ(plan_.lists.size(), 1u);
  EXPECT_EQ(plan_.lists[0].runs, std::vector<wb::Run>({wb::Run{0, 0, 12, 12, 24, 1, 0, 0}}));
  EXPECT_EQ(verdict(), "");
}

TEST_F(OneTensor, SaysWhichByteIsWrong) {
  run().remote_offset = 13;
  EXPECT_EQ(verdict(),
            "run 0 of the reads from source: byte 12 of region 0 of the receiver needs another "
            "element of w than byte 13 of region 0 of the source has");
}

TEST_F(OneTensor, SaysWhichByteNobodyNeeds) {
  run().local_offset = 13;
  run().remote_offset = 13;
  EXPECT_EQ(verdict(),
            "run 0 of the reads from source: byte 36 of region 0 of the receiver belongs to no "
            "needed piece");
}

TEST_F(OneTensor, SaysWhichByteIsWrittenTwice) {
  plan_.lists[0].runs = {wb::Run{0, 0, 12, 12, 12, 1, 0, 0}, wb::Run{0, 0, 23, 23, 12, 1, 0, 0}};
  plan_.lists[0].reads = 2;
  EXPECT_EQ(verdict(), "byte 23 of region 0 of the receiver is written twice");
}

TEST_F(OneTensor, RowsOfOneRunMayNotOverlap) {
  run() = wb::Run{0, 0, 12, 12, 6, 4, 5, 5};
  plan_.lists[0].reads = 4;
  EXPECT_EQ(verdict(), "byte 17 of region 0 of the receiver is written twice");
}

TEST_F(OneTensor, EndlessRowsEndAtOnce) {
  run().count = uint64_t{1} << 62;
  run().length = 4;
  EXPECT_NE(verdict(), "");
  run() = wb::Run{0, 0, 12, 12, uint64_t{1} << 32, uint64_t{1} << 32, 0, 0};
  EXPECT_NE(verdict(), "") << "length * count wraps to 0";
}

TEST_F(OneTensor, AnEmptyPlanProvesNothingButAnEmptyNeed) {
  EXPECT_EQ(world_.prove(Plan{}).code(), Code::kUnproven);
  world_.receiver.layout.pieces.clear();
  EXPECT_TRUE(world_.prove(Plan{}).ok());
  EXPECT_EQ(verdict().find("the receiver needs 0 bytes"), 0u);
}

TEST_F(OneTensor, DoesNotTrustTheLayouts) {
  const World good = world_;
  const auto refused = [&] {
    const Status status = world_.prove(plan_);
    world_ = good;
    return status.code() == Code::kUnproven;
  };
  world_.receiver.layout.pieces[0].buffer = 7;
  EXPECT_TRUE(refused());
  world_.receiver.layout.pieces[0].tensor = 7;
  EXPECT_TRUE(refused());
  world_.receiver.layout.pieces[0].stride[0] = 0;
  EXPECT_TRUE(refused());
  world_.receiver.layout.pieces[0].box = Box();
  EXPECT_TRUE(refused());
  world_.sources[0].layout.pieces[0].offset = 9;
  EXPECT_TRUE(refused()) << "a piece that ends outside its buffer";
  world_.sources[0].layout.pieces[0].stride[0] = std::numeric_limits<int64_t>::min();
  EXPECT_TRUE(refused());
  world_.sources[0].placement[0].region = 1;
  EXPECT_TRUE(refused());
  world_.sources[0].placement.clear();
  EXPECT_TRUE(refused());
  world_.sources[0].region_bytes[0] = 39;
  EXPECT_TRUE(refused());
  EXPECT_TRUE(world_.prove(plan_).ok());
}

TEST_F(OneTensor, AMissingRunIsMissedBehindRightTotals) {
  plan_.lists[0].runs = {wb::Run{0, 0, 12, 12, 12, 1, 0, 0}};
  plan_.lists[0].bytes = 12;
  EXPECT_EQ(verdict(), "the plan says 24 bytes, its lists 12");
}

// Rows of one run that go on, at the same pitch, behind the end of the source's piece.
TEST(Proof, RowsEndWithTheSourcesPiece) {
  World world;
  world.table = *TensorTable::make({TensorInfo{"w", DType::kU8, {6, 4}}});
  OwnedWorker& source = world.sources.emplace_back();
  source.add_buffer(60, 0);
  Piece upper = dense_rows(world.table, 0, 0, 3, 0, 0);
  Piece lower = dense_rows(world.table, 0, 3, 6, 0, 35);
  upper.stride[0] = lower.stride[0] = 5;
  source.layout.pieces = {upper, lower};
  world.receiver.add_buffer(36, 0);
  Piece need = dense_rows(world.table, 0, 0, 6, 0, 0);
  need.stride[0] = 6;
  world.receiver.layout.pieces.push_back(need);
  Plan plan = *world.plan();
  EXPECT_EQ(world.prove(plan).message(), "");
  plan.lists[0].runs = {wb::Run{0, 0, 0, 0, 4, 6, 5, 6}};
  EXPECT_EQ(fault_of(world, plan), "a byte comes from the wrong place");
  EXPECT_EQ(world.prove(plan).code(), Code::kUnproven);
}

// Two dimensions whose strides are not nested (0 3 | 2 5 | 4 7) still have one element per byte.
TEST(Proof, UnderstandsStridesThatAreNotNested) {
  World world;
  world.table = *TensorTable::make({TensorInfo{"w", DType::kU8, {3, 2}}});
  OwnedWorker& source = world.sources.emplace_back();
  source.add_buffer(6, 0);
  source.layout.pieces.push_back(dense_rows(world.table, 0, 0, 3, 0, 0));
  world.receiver.add_buffer(8, 0);
  Piece piece = dense_rows(world.table, 0, 0, 3, 0, 0);
  piece.stride[0] = 2;
  piece.stride[1] = 3;
  world.receiver.layout.pieces.push_back(piece);
  ASSERT_TRUE(check_layout(world.table, world.receiver.layout, LayoutRole::kReceiver).ok());
  const Result<Plan> plan = world.plan();
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(fault_of(world, *plan), "");
  EXPECT_EQ(world.prove(*plan).message(), "");
  Rng rng(1);
  EXPECT_EQ(world.prove(recut(*plan, rng)).message(), "") << "each byte looked at by itself";
}

// Two tensors in the same bytes of a source (tied embeddings): each is itself, and neither other.
TEST(Proof, OneSourceByteMayStandForTwoTensors) {
  World world;
  world.table = *TensorTable::make(
      {TensorInfo{"embed", DType::kU8, {4, 6}}, TensorInfo{"head", DType::kU8, {4, 6}}});
  OwnedWorker& source = world.sources.emplace_back();
  source.add_buffer(24, 0);
  world.receiver.add_buffer(48, 0);
  for (uint32_t t = 0; t < 2; ++t) {
    source.layout.pieces.push_back(dense_rows(world.table, t, 0, 4, 0, 0));
    world.receiver.layout.pieces.push_back(dense_rows(world.table, t, 0, 4, 0, t == 0 ? 0 : 24));
  }
  const Result<Plan> plan = world.plan();
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(fault_of(world, *plan), "");
  EXPECT_EQ(world.prove(*plan).message(), "");
}

}  // namespace
}  // namespace wb::test
