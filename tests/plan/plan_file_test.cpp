// Plan files: the same parts come back, and changed bytes are refused or read as a whole plan,
// never as something else.
#include "plan/plan_file.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <random>

#include "fleet_world.h"
#include "plan/fleet_proof.h"
#include "plan_generated.h"

namespace wb::test {
namespace {

std::vector<FleetPart> parts_of(const FleetJob& job, uint64_t seed) {
  FleetOptions options;
  options.policy = static_cast<Policy>(seed % 3);
  options.cut_bytes = 1;
  return *job.parts(*plan_fleet(*job.fleet, options));
}

bool same(const ReadList& a, const ReadList& b) {
  return a.source == b.source && a.runs == b.runs && a.bytes == b.bytes && a.reads == b.reads;
}

bool same(const FleetPart& a, const FleetPart& b) {
  if (a.inputs != b.inputs || a.receiver != b.receiver || a.bytes != b.bytes ||
      a.in_flight_bytes != b.in_flight_bytes || a.shape != b.shape ||
      a.lists.size() != b.lists.size()) {
    return false;
  }
  for (size_t i = 0; i < a.lists.size(); ++i) {
    const PartList& x = a.lists[i];
    const PartList& y = b.lists[i];
    if (x.from_peer != y.from_peer || x.worker != y.worker || x.stage != y.stage ||
        x.bytes != y.bytes || x.reads != y.reads || x.runs != y.runs || x.shapes != y.shapes ||
        x.fallbacks.size() != y.fallbacks.size()) {
      return false;
    }
    for (size_t f = 0; f < x.fallbacks.size(); ++f) {
      if (!same(x.fallbacks[f], y.fallbacks[f])) return false;
    }
  }
  return true;
}

RC_GTEST_PROP(PlanFile, TheSamePartsComeBack, (uint64_t seed)) {
  const FleetJob job(random_fleet(seed));
  const std::vector<FleetPart> parts = parts_of(job, seed);
  const auto bytes = write_plan_file(*job.fleet, parts);
  RC_ASSERT(bytes.ok());
  const auto file = read_plan_file(*bytes);
  if (!file.ok()) RC_FAIL(file.status().to_string());
  RC_ASSERT(file->parts.size() == parts.size());
  for (size_t r = 0; r < parts.size(); ++r) RC_ASSERT(same(file->parts[r], parts[r]));
  RC_ASSERT(file->sources.size() == job.fleet->sources().size());
  for (size_t s = 0; s < file->sources.size(); ++s) {
    RC_ASSERT(file->sources[s] == job.fleet->sources()[s].name);
  }
  // Byte for byte the same from the same inputs in another order.
  const FleetJob other(shuffled(job.world, seed + 7));
  const auto again = write_plan_file(*other.fleet, parts_of(other, seed));
  RC_ASSERT(again.ok());
  RC_ASSERT(*again == *bytes);
}

RC_GTEST_PROP(PlanFile, AnyChangedByteIsRefused, (uint64_t seed)) {
  const FleetJob job(random_fleet(seed));
  std::vector<std::byte> bytes = *write_plan_file(*job.fleet, parts_of(job, seed));
  std::mt19937_64 rng(seed);
  for (int i = 0; i < 30; ++i) {
    std::vector<std::byte> other = bytes;
    if (rng() % 4 == 0) {
      other.resize(rng() % other.size());
    } else {
      other[rng() % other.size()] ^= static_cast<std::byte>(1 + rng() % 255);
    }
    RC_ASSERT(read_plan_file(other).status().code() == Code::kBadData);
  }
}

// As an attacker would: the digest fits the changed bytes. Whatever is read then is a whole plan,
// and the proof decides about it.
RC_GTEST_PROP(PlanFile, ChangedBytesUnderARightDigestAreNeverTrusted, (uint64_t seed)) {
  const FleetJob job(random_fleet(seed));
  const std::vector<FleetPart> parts = parts_of(job, seed);
  std::vector<std::byte> bytes = *write_plan_file(*job.fleet, parts);
  std::mt19937_64 rng(seed);
  for (int i = 0; i < 60; ++i) {
    std::vector<std::byte> other = bytes;
    for (uint64_t n = 1 + rng() % 4; n > 0; --n) {
      other[16 + rng() % (other.size() - 16)] = static_cast<std::byte>(rng());
    }
    if (rng() % 8 == 0) other.resize(24 + rng() % (other.size() - 24));
    const Digest whole = digest_of(std::span(other).subspan(16));
    std::memcpy(other.data(), &whole.low, 8);
    std::memcpy(other.data() + 8, &whole.high, 8);
    const auto file = read_plan_file(other);
    if (!file.ok()) {
      RC_ASSERT(file.status().code() == Code::kBadData);
      continue;
    }
    if (prove_fleet(*job.fleet, file->parts).ok()) RC_ASSERT(fault_of(job, file->parts) == "");
  }
}

// A thousand lists that all point to one large vector of runs: small to send, large to read.
TEST(PlanFile, ListsThatShareTheirRunsAreRefused) {
  for (const size_t copies : {size_t{1}, size_t{1000}}) {
    flatbuffers::FlatBufferBuilder builder;
    std::vector<fb::PlanRun> runs(1000, fb::PlanRun(0, 0, 1, 1, 0, 0, 0, 0));
    std::vector<fb::PlanShape> shapes(1000, fb::PlanShape(1, 0, 0, 1, 0));
    const auto all_runs = builder.CreateVectorOfStructs(runs);
    const auto all_shapes = builder.CreateVectorOfStructs(shapes);
    const auto none = builder.CreateVector(std::vector<flatbuffers::Offset<fb::PlanFallback>>());
    const auto name = builder.CreateVectorOfStrings(std::vector<std::string>{"w"});
    std::vector<flatbuffers::Offset<fb::PlanList>> lists;
    for (size_t i = 0; i < copies; ++i) {
      lists.push_back(fb::CreatePlanList(builder, false, 0, 0, all_runs, all_shapes, none));
    }
    const auto part = fb::CreatePlanPart(builder, 0, 1, builder.CreateVector(lists));
    const auto parts = builder.CreateVector(std::vector{part});
    const fb::PlanDigest inputs(1, 2);
    fb::FinishPlanFileBuffer(builder, fb::CreatePlanFile(builder, 1, &inputs, name, name, parts));
    std::vector<std::byte> bytes(16 + builder.GetSize());
    std::memcpy(bytes.data() + 16, builder.GetBufferPointer(), builder.GetSize());
    const Digest whole = digest_of(std::span(bytes).subspan(16));
    std::memcpy(bytes.data(), &whole.low, 8);
    std::memcpy(bytes.data() + 8, &whole.high, 8);
    const auto file = read_plan_file(bytes);
    if (copies == 1) {
      EXPECT_TRUE(file.ok()) << file.status().to_string();
    } else {
      EXPECT_EQ(file.status().code(), Code::kBadData);
    }
  }
}

TEST(PlanFile, PartsOfTwoPlansAreNotWrittenTogether) {
  const FleetJob job(random_fleet(3));
  std::vector<FleetPart> parts = parts_of(job, 0);
  FleetPart other = parts.front();
  other.inputs.low ^= 1;
  parts.push_back(other);
  EXPECT_EQ(write_plan_file(*job.fleet, parts).status().code(), Code::kMismatch);
}

}  // namespace
}  // namespace wb::test
