// From a plan's local runs to what install() copies, against byte-by-byte expansion.
#include "session/target.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

namespace wb {
namespace {

using Bytes = std::multiset<std::pair<uint32_t, uint64_t>>;  // (buffer, offset)

struct Place {
  WorkerLayout layout;
  BoundMemory memory;
};

// One region; buffers lie side by side, some of them without a gap, and one is empty.
Place random_place(std::mt19937_64& random) {
  Place place;
  uint64_t at = 0;
  for (int i = 0; i < 5; ++i) {
    const uint64_t bytes = i == 2 ? 0 : 16 + random() % 48;
    place.layout.buffers.push_back(
        {"b" + std::to_string(i), DType::kU8, {static_cast<int64_t>(bytes)}, bytes});
    place.memory.placement.push_back({0, at});
    at += bytes + (random() % 2) * (random() % 8);
  }
  place.memory.regions.push_back(Allocation::host(4096, {}).value());
  place.memory.region_bytes.push_back(4096);
  return place;
}

bool inside_a_buffer(const Place& place, uint64_t byte, uint32_t* buffer, uint64_t* offset) {
  for (uint32_t i = 0; i < place.layout.buffers.size(); ++i) {
    const uint64_t from = place.memory.placement[i].offset;
    if (byte < from || byte >= from + place.layout.buffers[i].bytes) continue;
    *buffer = i;
    *offset = byte - from;
    return true;
  }
  return false;
}

TEST(InstallRuns, CoverExactlyTheBytesThatThePlanWrites) {
  std::mt19937_64 random(3);
  uint64_t across = 0;
  for (int round = 0; round < 500; ++round) {
    const Place place = random_place(random);
    Plan plan;
    plan.lists.emplace_back();
    Bytes expected;
    std::set<uint64_t> taken;
    for (int tries = 0; tries < 8; ++tries) {
      wb::Run run;
      run.length = 1 + random() % 24;
      run.count = 1 + random() % 4;
      run.local_pitch = static_cast<int64_t>(run.length + random() % 12);
      run.local_offset = random() % 200;
      if (random() % 4 == 0 && run.count > 1) {
        run.local_offset += static_cast<uint64_t>(run.local_pitch) * (run.count - 1);
        run.local_pitch = -run.local_pitch;
      }
      // A plan writes inside buffers and no byte twice: other runs are thrown away.
      Bytes bytes;
      std::set<uint64_t> places;
      std::set<uint32_t> buffers;
      bool good = true;
      for (uint64_t row = 0; row < run.count; ++row) {
        for (uint64_t i = 0; i < run.length; ++i) {
          const uint64_t byte = run.local_offset +
                                static_cast<uint64_t>(static_cast<int64_t>(row) * run.local_pitch) +
                                i;
          uint32_t buffer = 0;
          uint64_t offset = 0;
          good = good && inside_a_buffer(place, byte, &buffer, &offset) && !taken.contains(byte);
          places.insert(byte);
          buffers.insert(buffer);
          bytes.emplace(buffer, offset);
        }
      }
      if (!good) continue;
      across += buffers.size() > 1;
      taken.merge(places);
      expected.merge(bytes);
      plan.lists.back().runs.push_back(run);
    }
    const auto runs = install_runs(place.layout, place.memory, plan);
    ASSERT_TRUE(runs.ok()) << runs.status().to_string();
    Bytes actual;
    for (const InstallRun& run : *runs) {
      for (uint64_t row = 0; row < run.count; ++row) {
        for (uint64_t i = 0; i < run.length; ++i) {
          actual.emplace(
              run.buffer,
              run.offset + static_cast<uint64_t>(static_cast<int64_t>(row) * run.pitch) + i);
        }
      }
    }
    ASSERT_EQ(actual, expected) << "round " << round;
  }
  EXPECT_GT(across, 20u) << "runs over a border of buffers are what this is about";
}

TEST(InstallRuns, AWriteOutsideTheBuffersIsABrokenInvariant) {
  std::mt19937_64 random(4);
  const Place place = random_place(random);
  Plan plan;
  wb::Run run;
  run.local_offset = 2000;
  run.length = 8;
  plan.lists.push_back({0, {run}, 8, 1});
  EXPECT_EQ(install_runs(place.layout, place.memory, plan).status().code(), Code::kInternal);
}

TEST(BoundMemory, BuffersAreCheckedBeforeTheyAreRegistered) {
  WorkerLayout layout;
  layout.buffers.push_back({"a", DType::kU8, {100}, 100});
  layout.buffers.push_back({"b", DType::kU8, {50}, 50});
  const auto memory = Allocation::host(4096, {}).value();
  const auto code = [&](std::vector<BoundBuffer> buffers) {
    return group_buffers(layout, buffers).status().code();
  };
  EXPECT_EQ(code({{memory, 0}, {memory, 100}}), Code::kOk);
  EXPECT_EQ(code({{memory, 100}, {memory, 0}}), Code::kOk);
  EXPECT_EQ(code({{memory, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{memory, 0}, {nullptr, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{memory, 0}, {memory, 99}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{memory, 20}, {memory, 0}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{memory, 0}, {memory, 4047}}), Code::kInvalidArgument);
  EXPECT_EQ(code({{memory, 0}, {memory, ~uint64_t{0} - 10}}), Code::kInvalidArgument);
  const auto grouped = group_buffers(layout, {{memory, 0}, {memory, 100}});
  ASSERT_TRUE(grouped.ok());
  EXPECT_EQ(grouped->regions.size(), 1u) << "registered by allocation";
}

}  // namespace
}  // namespace wb
