// The proof of a fleet's parts: changing any one number of a proved plan must make it fail, or
// leave a plan that the oracle finds right as well.
#include "plan/fleet_proof.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <random>

#include "fleet_world.h"

namespace wb::test {
namespace {

// One number of the parts, as something that can be read and changed.
struct Number {
  std::string name;
  std::function<uint64_t()> get;
  std::function<void(uint64_t)> set;
};

template <typename T>
Number number(std::string name, T* field) {
  return {std::move(name), [field] { return static_cast<uint64_t>(*field); },
          [field](uint64_t value) { *field = static_cast<T>(value); }};
}

void add_run(Run* run, std::vector<Number>* out) {
  out->push_back(number("remote_region", &run->remote_region));
  out->push_back(number("local_region", &run->local_region));
  out->push_back(number("remote_offset", &run->remote_offset));
  out->push_back(number("local_offset", &run->local_offset));
  out->push_back(number("length", &run->length));
  out->push_back(number("count", &run->count));
  if (run->count > 1) {  // a pitch of one row means nothing
    out->push_back(number("remote_pitch", &run->remote_pitch));
    out->push_back(number("local_pitch", &run->local_pitch));
  }
}

std::vector<Number> numbers_of(std::vector<FleetPart>* parts) {
  std::vector<Number> out;
  for (FleetPart& part : *parts) {
    out.push_back(number("receiver", &part.receiver));
    out.push_back(number("part.bytes", &part.bytes));
    if (parts->size() > 1) out.push_back(number("inputs", &part.inputs.low));
    for (PartList& list : part.lists) {
      out.push_back(number("worker", &list.worker));
      out.push_back(number("from_peer", &list.from_peer));
      out.push_back(number("stage", &list.stage));
      out.push_back(number("list.bytes", &list.bytes));
      out.push_back(number("list.reads", &list.reads));
      for (Run& run : list.runs) add_run(&run, &out);
      for (ReadList& fallback : list.fallbacks) {
        out.push_back(number("fallback.source", &fallback.source));
        out.push_back(number("fallback.bytes", &fallback.bytes));
        out.push_back(number("fallback.reads", &fallback.reads));
        for (Run& run : fallback.runs) add_run(&run, &out);
      }
    }
  }
  return out;
}

uint64_t changed(uint64_t value, std::mt19937_64* rng) {
  const auto pick = [&](uint64_t high) { return (*rng)() % (high + 1); };
  switch (pick(4)) {
    case 0:
      return value + 1 + pick(3);
    case 1:
      return value - 1 - pick(3);
    case 2:
      return value ^ (uint64_t{1} << pick(63));
    case 3:
      return pick(2);
    default:
      return value * 2;
  }
}

RC_GTEST_PROP(FleetProof, AnyChangedNumberIsFound, (uint64_t seed)) {
  const FleetJob job(random_fleet(seed));
  std::mt19937_64 rng(seed);
  FleetOptions options;
  options.policy = static_cast<Policy>(rng() % 3);
  options.cut_bytes = rng() % 3;
  const auto plan = plan_fleet(*job.fleet, options);
  if (!plan.ok()) RC_FAIL(plan.status().to_string());
  std::vector<FleetPart> parts = *job.parts(*plan);
  const Status proved = prove_fleet(*job.fleet, parts);
  if (!proved.ok()) RC_FAIL(proved.to_string());
  std::vector<Number> numbers = numbers_of(&parts);
  for (int i = 0; i < 40; ++i) {
    Number& n = numbers[rng() % numbers.size()];
    const uint64_t before = n.get();
    n.set(changed(before, &rng));
    if (n.get() != before) {
      const Status status = prove_fleet(*job.fleet, parts);
      // Another source, or another place, may hold the same bytes: the oracle decides.
      if (status.ok() && fault_of(job, parts) != "") RC_FAIL(n.name + " was changed unseen");
      // And what names no worker and no remote place has only one right value.
      const bool may_vary =
          n.name == "worker" || n.name == "fallback.source" || n.name.starts_with("remote");
      if (status.ok() && !may_vary) RC_FAIL(n.name + " was changed and is still proved");
    }
    n.set(before);
  }
}

FleetJob two_receivers() {
  FleetWorld world;
  world.table = *TensorTable::make({{"t", DType::kBF16, {64, 32}}});
  for (int s = 0; s < 2; ++s) {
    OwnedWorker& w = world.sources.emplace_back();
    w.name = "source-" + std::to_string(s);
    w.layout.pieces.push_back(dense_rows(world.table, 0, 0, 64, w.add_buffer(4096, 0), 0));
    world.cluster.sources.push_back({0, static_cast<uint32_t>(s)});
  }
  for (int r = 0; r < 2; ++r) {
    OwnedWorker& w = world.receivers.emplace_back();
    w.name = "receiver-" + std::to_string(r);
    w.layout.pieces.push_back(dense_rows(world.table, 0, 0, 64, w.add_buffer(4096, 0), 0));
    world.cluster.receivers.push_back({1, static_cast<uint32_t>(r)});
  }
  const Nic nic{1000, true, 0};
  world.cluster.hosts = {{"a", {nic, nic}, 9000, 0}, {"b", {nic, nic}, 9000, 0}};
  return FleetJob(std::move(world));
}

TEST(FleetProof, PartsOfOtherInputsAreNotMixed) {
  const FleetJob job = two_receivers();
  FleetOptions options;
  options.policy = Policy::kHost;
  options.cut_bytes = 1;
  const FleetPlan one = *plan_fleet(*job.fleet, options);
  options.membership_revision = 1;
  const FleetPlan two = *plan_fleet(*job.fleet, options);
  const std::vector<FleetPart> mixed = {*make_part(*job.fleet, one, 0),
                                        *make_part(*job.fleet, two, 1)};
  const Status status = prove_fleet(*job.fleet, mixed);
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.message().find("receiver-1"), std::string::npos) << status.message();
}

TEST(FleetProof, TwoThatWaitForEachOtherAreFound) {
  const FleetJob job = two_receivers();
  FleetOptions options;
  options.policy = Policy::kHost;
  options.cut_bytes = 1;
  const FleetPlan plan = *plan_fleet(*job.fleet, options);
  std::vector<FleetPart> parts = *job.parts(plan);
  ASSERT_TRUE(prove_fleet(*job.fleet, parts).ok());
  // Each reads all from the other, with fallbacks from the sources that held it before.
  for (FleetPart& part : parts) {
    PartList all;
    all.from_peer = true;
    all.worker = 1 - part.receiver;
    all.stage = 1;
    wb::Run run;
    run.length = 4096;
    all.runs = {run};
    all.shapes.resize(1);
    all.bytes = 4096;
    all.reads = 1;
    all.fallbacks = {ReadList{0, {run}, 4096, 1}};
    part.lists = {all};
    ASSERT_TRUE(prove_part(*job.fleet, part).ok());
  }
  const Status status = prove_fleet(*job.fleet, parts);
  EXPECT_EQ(status.code(), Code::kUnproven);
  EXPECT_NE(fault_of(job, parts), "");
}

TEST(FleetProof, AFallbackOfAnotherListIsFound) {
  const FleetJob job = two_receivers();
  FleetOptions options;
  options.policy = Policy::kDirect;
  const FleetPlan plan = *plan_fleet(*job.fleet, options);
  std::vector<FleetPart> parts = *job.parts(plan);
  // Two halves from one peer at different stages, their fallbacks exchanged: together they still
  // write all bytes.
  wb::Run low, high;
  low.length = high.length = 2048;
  high.remote_offset = high.local_offset = 2048;
  parts[0].lists.clear();
  for (int i = 0; i < 2; ++i) {
    PartList& list = parts[0].lists.emplace_back();
    list.from_peer = true;
    list.worker = 1;
    list.stage = 1 + static_cast<uint32_t>(i);
    list.runs = {i == 0 ? low : high};
    list.shapes.resize(1);
    list.bytes = 2048;
    list.reads = 1;
    list.fallbacks = {ReadList{0, {i == 0 ? high : low}, 2048, 1}};
  }
  EXPECT_EQ(prove_part(*job.fleet, parts[0]).code(), Code::kUnproven);
  std::swap(parts[0].lists[0].fallbacks, parts[0].lists[1].fallbacks);
  EXPECT_TRUE(prove_part(*job.fleet, parts[0]).ok());
}

}  // namespace
}  // namespace wb::test
