// Read lists as READs, against a byte-by-byte oracle.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

#include "transport/verbs/pieces.h"

namespace wb::verbs {
namespace {

// Local byte -> remote byte, as the runs say.
std::map<uint64_t, uint64_t> by_runs(const std::vector<Run>& runs,
                                     const std::vector<RegionView>& remote,
                                     const std::vector<RegionView>& local) {
  std::map<uint64_t, uint64_t> out;
  for (const Run& run : runs) {
    for (uint64_t row = 0; row < run.count; ++row) {
      for (uint64_t byte = 0; byte < run.length; ++byte) {
        const uint64_t from =
            run.remote_offset + row * static_cast<uint64_t>(run.remote_pitch) + byte;
        const uint64_t to = run.local_offset + row * static_cast<uint64_t>(run.local_pitch) + byte;
        out[local[run.local_region].address + to] = remote[run.remote_region].address + from;
      }
    }
  }
  return out;
}

// The same by pieces; every READ is checked against its bounds on the way.
std::map<uint64_t, uint64_t> by_pieces(const std::vector<Piece>& pieces,
                                       const std::vector<RegionView>& remote,
                                       const std::vector<RegionView>& local,
                                       const PieceLimits& limits) {
  std::map<uint64_t, uint64_t> out;
  uint64_t next = 0;
  const auto inside = [](const std::vector<RegionView>& regions, uint32_t key, uint64_t address,
                         uint64_t bytes) {
    for (size_t i = regions.size(); i-- > 0;) {
      if (key < regions[i].first_key) continue;
      const uint64_t begin =
          regions[i].address + (key - regions[i].first_key) * regions[i].slice_bytes;
      return address >= begin && address + bytes <= begin + regions[i].slice_bytes;
    }
    return false;
  };
  for (const Piece& piece : pieces) {
    RC_ASSERT(piece.first == next);
    next += piece.count;
    RC_ASSERT(piece.count != 0u && piece.length != 0u && piece.rows != 0u);
    RC_ASSERT(piece.rows <= limits.scatter);
    RC_ASSERT(piece.read_bytes() <= limits.max_read);
    for (uint64_t read = 0; read < piece.count; ++read) {
      const uint64_t from = piece.remote + read * static_cast<uint64_t>(piece.remote_pitch);
      RC_ASSERT(inside(remote, piece.remote_key, from, piece.read_bytes()));
      for (uint32_t row = 0; row < piece.rows; ++row) {
        const uint64_t to = piece.local + read * static_cast<uint64_t>(piece.local_pitch) +
                            row * static_cast<uint64_t>(piece.row_pitch);
        RC_ASSERT(inside(local, piece.local_key, to, piece.length));
        for (uint64_t byte = 0; byte < piece.length; ++byte) {
          const auto [at, fresh] =
              out.emplace(to + byte, from + uint64_t{row} * piece.length + byte);
          RC_ASSERT(fresh);  // each byte once
        }
      }
    }
  }
  return out;
}

TEST(Pieces, BringWhatTheRunsSayInsideEveryBound) {
  EXPECT_TRUE(rc::check("pieces are the runs", [] {
    const auto view = [](uint64_t base, uint32_t first_key) {
      RegionView out;
      out.address = base;
      out.slice_bytes = *rc::gen::inRange<uint64_t>(32, 3000);
      out.first_key = first_key;
      return out;
    };
    constexpr uint64_t kSize = 4000;
    const std::vector<RegionView> remote = {view(1u << 20, 0), view(2u << 20, 200)};
    const std::vector<RegionView> local = {view(3u << 20, 0), view(4u << 20, 200)};
    PieceLimits limits;
    limits.max_read = *rc::gen::inRange<uint32_t>(8, 600);
    limits.scatter = *rc::gen::inRange<uint32_t>(1, 9);
    std::vector<wb::Run> runs;
    constexpr uint64_t kStrips = 4;
    constexpr uint64_t kStrip = kSize / kStrips;
    for (uint64_t strip = 0; strip < 2 * kStrips; ++strip) {
      wb::Run run;
      run.remote_region = *rc::gen::inRange<uint32_t>(0, 2);
      run.local_region = static_cast<uint32_t>(strip % 2);
      run.length = *rc::gen::inRange<uint64_t>(0, *rc::gen::element<uint64_t>(30, 900));
      const uint64_t pitch = run.length + *rc::gen::inRange<uint64_t>(0, 20);
      run.count = pitch == 0 ? 0 : *rc::gen::inRange<uint64_t>(0, kStrip / pitch + 1);
      const uint64_t span = run.count == 0 ? 0 : (run.count - 1) * pitch;
      if (run.count != 0 && span + run.length > kStrip) continue;
      const bool back = *rc::gen::arbitrary<bool>();
      run.local_pitch = static_cast<int64_t>(pitch) * (back ? -1 : 1);
      run.local_offset = strip / 2 * kStrip + (back ? span : 0);
      const bool together = *rc::gen::arbitrary<bool>();
      const uint64_t most = run.count < 2 ? 100 : (kSize - run.length) / (run.count - 1);
      const uint64_t remote_pitch =
          together ? run.length : *rc::gen::inRange<uint64_t>(0, most + 1);
      const uint64_t remote_span = run.count == 0 ? 0 : (run.count - 1) * remote_pitch;
      const bool remote_back = *rc::gen::inRange(0, 3) == 0;
      run.remote_pitch = static_cast<int64_t>(remote_pitch) * (remote_back ? -1 : 1);
      run.remote_offset = *rc::gen::inRange<uint64_t>(0, kSize - remote_span - run.length + 1) +
                          (remote_back ? remote_span : 0);
      runs.push_back(run);
    }
    const auto pieces = make_pieces(runs, remote, local, limits);
    RC_ASSERT(by_pieces(pieces, remote, local, limits) == by_runs(runs, remote, local));
  }));
}

constexpr RegionView kWhole{1u << 30, uint64_t{2} << 30, 0};

std::vector<Piece> pieces_of(const Run& run, const PieceLimits& limits = {}) {
  return make_pieces({{run}}, {{kWhole}}, {{kWhole}}, limits);
}

TEST(Pieces, ALongRunIsCutIntoEqualReads) {
  const auto pieces = pieces_of({.length = (10u << 20) + 5});
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].count, 10u);
  EXPECT_EQ(pieces[0].length, 1u << 20);
  EXPECT_EQ(pieces[1].length, 5u);
}

TEST(Pieces, RowsThatLieTogetherOnBothSidesAreOneRun) {
  const auto pieces =
      pieces_of({.length = 512, .count = 64, .remote_pitch = 512, .local_pitch = 512});
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].count, 1u);
  EXPECT_EQ(pieces[0].length, 64u * 512);
}

// 3.5 million rows of 4 KiB into a pitch: 16 of them in one READ.
TEST(Pieces, ShortRowsThatLieTogetherAtTheSourceShareReads) {
  const auto pieces =
      pieces_of({.length = 4096, .count = 1000, .remote_pitch = 4096, .local_pitch = 32768},
                {.max_read = 1u << 20, .scatter = 16});
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].rows, 16u);
  EXPECT_EQ(pieces[0].count, 62u);
  EXPECT_EQ(pieces[1].rows, 8u);
}

TEST(Pieces, RowsApartAtTheSourceAreReadsOfTheirOwn) {
  const auto pieces =
      pieces_of({.length = 128, .count = 1000, .remote_pitch = 256, .local_pitch = 128},
                {.max_read = 1u << 20, .scatter = 16});
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].rows, 1u);
  EXPECT_EQ(pieces[0].count, 1000u);
}

// A terabyte in small slices: no recursion, and as many pieces as borders ask for.
TEST(Pieces, ARunThroughManySlicesIsCutAtEachBorder) {
  const RegionView sliced{1u << 30, 1u << 20, 0};
  const auto pieces = make_pieces({{wb::Run{.length = uint64_t{1} << 38}}}, {{sliced}}, {{sliced}},
                                  {.max_read = 1u << 30, .scatter = 1});
  EXPECT_EQ(pieces.size(), 1u << 18);
}

}  // namespace
}  // namespace wb::verbs
