#include "session/header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "session/version_choice.h"

namespace wb {
namespace {

const Digest kMapping{11, 12};
const Digest kIncarnation{21, 22};
const HeaderExpectation kExpected{3, kMapping, kIncarnation};

HeaderWords words_of(const HeaderDirectory& directory, uint32_t slot) {
  const auto* const words =
      reinterpret_cast<const uint64_t*>(directory.memory()->data()) + slot * kHeaderWords;
  HeaderWords out;
  for (size_t i = 0; i < kHeaderWords; ++i) out[i] = __atomic_load_n(words + i, __ATOMIC_ACQUIRE);
  return out;
}

TEST(Header, EpochsGoOddAndEvenAndOnlyGrow) {
  auto made = HeaderDirectory::create(2, kMapping, kIncarnation);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  HeaderDirectory& directory = *made;
  EXPECT_TRUE(directory.changing(0));
  EXPECT_TRUE(directory.changing(1));
  EXPECT_FALSE(held_version(words_of(directory, 0), kExpected).has_value());

  directory.end_change(0, {3, 7});
  const HeaderWords first = words_of(directory, 0);
  EXPECT_EQ(held_version(first, kExpected), (Version{3, 7}));
  EXPECT_TRUE(unchanged(first, words_of(directory, 0)));
  EXPECT_TRUE(directory.changing(1));

  directory.begin_change(0);
  const HeaderWords odd = words_of(directory, 0);
  EXPECT_FALSE(held_version(odd, kExpected).has_value());
  EXPECT_FALSE(unchanged(first, odd));
  EXPECT_FALSE(unchanged(odd, odd));
  directory.begin_change(0);  // without effect
  EXPECT_EQ(words_of(directory, 0), odd);

  // The same version again is another state of the slot.
  directory.end_change(0, {3, 7});
  EXPECT_EQ(held_version(words_of(directory, 0), kExpected), (Version{3, 7}));
  EXPECT_FALSE(unchanged(first, words_of(directory, 0)));
}

TEST(Header, ClosedIsForever) {
  auto made = HeaderDirectory::create(1, kMapping, kIncarnation);
  ASSERT_TRUE(made.ok());
  made->end_change(0, {3, 7});
  EXPECT_FALSE(is_closed(words_of(*made, 0)));
  made->close();
  made->begin_change(0);
  made->end_change(0, {3, 8});
  EXPECT_TRUE(is_closed(words_of(*made, 0)));
  EXPECT_FALSE(held_version(words_of(*made, 0), kExpected).has_value());
}

TEST(Header, EveryWordCounts) {
  auto made = HeaderDirectory::create(1, kMapping, kIncarnation);
  ASSERT_TRUE(made.ok());
  made->end_change(0, {3, 7});
  const HeaderWords good = words_of(*made, 0);
  ASSERT_TRUE(held_version(good, kExpected).has_value());
  for (size_t word = 0; word < kHeaderWords; ++word) {
    for (uint32_t bit = 0; bit < 64; ++bit) {
      HeaderWords other = good;
      other[word] ^= uint64_t{1} << bit;
      EXPECT_FALSE(unchanged(good, other)) << word;
      EXPECT_FALSE(unchanged(other, good)) << word;
      // Another epoch that is even, or another number, is another state or version; anything else
      // is not this source's.
      const auto held = held_version(other, kExpected);
      if (word == 0 && bit != 0 && other[0] != 0) {
        EXPECT_EQ(held, (Version{3, 7}));
      } else if (word == 2) {
        EXPECT_EQ(held, (Version{3, other[2]}));
      } else {
        EXPECT_FALSE(held.has_value()) << "word " << word << " bit " << bit;
      }
    }
  }
  EXPECT_FALSE(held_version(HeaderWords{}, {0, {}, {}}).has_value()) << "fresh pages";
}

// The protocol itself, on one machine: a reader never accepts words of two versions.
TEST(Header, AcceptedReadsAreOfOneVersion) {
  auto made = HeaderDirectory::create(1, kMapping, kIncarnation);
  ASSERT_TRUE(made.ok());
  HeaderDirectory& directory = *made;
  std::array<uint64_t, 64> weights{};
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (uint64_t number = 1; !stop; ++number) {
      directory.begin_change(0);
      for (uint64_t& word : weights) __atomic_store_n(&word, number, __ATOMIC_RELAXED);
      directory.end_change(0, {3, number});
      if (number % 16 == 0) std::this_thread::yield();
    }
  });
  uint64_t accepted = 0;
  const Deadline end = Deadline::after(std::chrono::seconds(30));
  while (accepted < 2000 && !end.expired()) {
    const HeaderWords first = words_of(directory, 0);
    const auto version = held_version(first, kExpected);
    if (!version.has_value()) continue;
    std::array<uint64_t, 64> copy;
    for (size_t i = 0; i < copy.size(); ++i)
      copy[i] = __atomic_load_n(&weights[i], __ATOMIC_ACQUIRE);
    if (!unchanged(first, words_of(directory, 0))) continue;
    ++accepted;
    for (const uint64_t word : copy) ASSERT_EQ(word, version->number);
  }
  stop = true;
  writer.join();
  EXPECT_GT(accepted, 0u);
}

// choose_version against a search over all versions and slots.
TEST(VersionChoice, AgreesWithASlowSearch) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 3000; ++round) {
    const size_t sources = 1 + random() % 3;
    std::vector<std::vector<uint64_t>> words(sources);
    std::vector<std::vector<std::optional<Version>>> held(sources);
    std::vector<SourceHeaders> headers;
    for (size_t source = 0; source < sources; ++source) {
      const size_t slots = 1 + random() % 3;
      for (size_t slot = 0; slot < slots; ++slot) {
        const uint64_t epoch = 1 + random() % 4;
        const Version version{3 - random() % 2, random() % 4};
        words[source].insert(words[source].end(),
                             {epoch, version.generation, version.number, kMapping.low,
                              kMapping.high, kIncarnation.low, kIncarnation.high, 0});
        const bool good = epoch % 2 == 0 && version.generation == 3;
        held[source].push_back(good ? std::optional(version) : std::nullopt);
      }
      headers.push_back({{words[source]}, kExpected});
    }
    Want want;
    want.kind = static_cast<Want::Kind>(1 + random() % 3);
    want.number = random() % 4;

    std::optional<Version> best;
    for (uint64_t number = 0; number < 4; ++number) {
      if (want.kind == Want::Kind::kExactly && number != want.number) continue;
      if (want.kind == Want::Kind::kAtLeast && number < want.number) continue;
      bool all = true;
      for (const auto& slots : held)
        all = all && std::count(slots.begin(), slots.end(), Version{3, number}) != 0;
      if (all) best = Version{3, number};
    }
    std::vector<uint32_t> slots(sources);
    const VersionChoice choice = choose_version(want, headers, slots);
    ASSERT_EQ(choice.found, best.has_value());
    if (!best.has_value()) continue;
    ASSERT_EQ(choice.version, *best);
    for (size_t source = 0; source < sources; ++source)
      ASSERT_EQ(held[source].at(slots[source]), best);
  }
}

}  // namespace
}  // namespace wb
