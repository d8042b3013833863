// What loaders of frameworks do with checkpoint tensors, each probed and compared cell by cell.
#include <gtest/gtest.h>

#include <cmath>

#include "world.h"

namespace wb::probe::test {
namespace {

using enum DType;

// Probes and compares in both ways of restoring; the weights must be as before. Gives the pieces.
size_t expect_learnt(World* world, const World::Loader& loader, Options options = {}) {
  size_t pieces = 0;
  for (const Restore restore : {Restore::kBackup, Restore::kReload}) {
    options.restore = restore;
    world->fill_with_garbage(7);
    world->load_weights(loader);
    std::vector<std::vector<uint64_t>> before;
    for (Buffer& buffer : world->buffers()) before.push_back(buffer.storage);
    Prober prober(world->table(), options);
    add_buffers(world, &prober);
    const Status status = run_probe(world, loader, &prober);
    EXPECT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(compare(world, prober), "");
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(world->buffers()[i].storage == before[i]) << world->buffers()[i].name;
    }
    if (prober.result() != nullptr) pieces = prober.result()->layout.pieces.size();
  }
  return pieces;
}

TEST(Loaders, CopiesAndFuses) {
  World world(
      {{"q", kBF16, {24, 16}}, {"k", kBF16, {8, 16}}, {"v", kBF16, {8, 16}}, {"norm", kF32, {16}}});
  world.add("qkv", kBF16, {40, 16});
  world.add("norm", kF32, {16});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("qkv", cat({get("q"), get("k"), get("v")}, 0));
    to->store("norm", get("norm"));
  };
  EXPECT_EQ(expect_learnt(&world, load), 4u);
}

TEST(Loaders, InterleavesGroupsOfHeadsAsMegatronDoes) {
  constexpr int64_t kGroups = 4, kRows = 8, kQueries = 3, kWidth = 12;
  World world({{"q", kBF16, {kGroups * kQueries * kRows, kWidth}},
               {"k", kBF16, {kGroups * kRows, kWidth}},
               {"v", kBF16, {kGroups * kRows, kWidth}}});
  world.add("linear_qkv", kBF16, {kGroups * (kQueries + 2) * kRows, kWidth});
  const auto load = [](const World::Fetch& get, World* to) {
    const Array q = get("q"), k = get("k"), v = get("v");
    std::vector<Array> parts;
    for (int64_t g = 0; g < kGroups; ++g) {
      parts.push_back(slice(q, 0, g * kQueries * kRows, kQueries * kRows));
      parts.push_back(slice(k, 0, g * kRows, kRows));
      parts.push_back(slice(v, 0, g * kRows, kRows));
    }
    to->store("linear_qkv", cat(parts, 0));
  };
  // The stride from group to group is not that from row to row: one piece per group.
  EXPECT_EQ(expect_learnt(&world, load), 3u * kGroups);
}

TEST(Loaders, SlicesColumnsAndTransposes) {
  World world({{"o", kBF16, {20, 32}}, {"t", kF16, {6, 10}}});
  world.add("o", kBF16, {20, 8});
  world.add("t", kF16, {10, 6});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("o", slice(get("o"), 1, 8, 8));
    to->store("t", transpose(get("t"), {1, 0}));
  };
  EXPECT_EQ(expect_learnt(&world, load), 2u);
}

TEST(Loaders, InterleavesAndStridesAndFlips) {
  World world({{"gate", kBF16, {10, 8}},
               {"up", kBF16, {10, 8}},
               {"x", kF32, {9, 4}},
               {"f", kBF16, {7, 5}}});
  world.add("rows", kBF16, {20, 8});
  world.add("columns", kBF16, {10, 16});
  world.add("odd", kF32, {4, 4});
  world.add("flipped", kBF16, {7, 5});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("rows", interleave({get("gate"), get("up")}, 0));
    to->store("columns", interleave({get("gate"), get("up")}, 1));
    to->store("odd", slice(get("x"), 0, 1, 4, 2));
    to->store("flipped", flip(get("f"), 0));
  };
  EXPECT_EQ(expect_learnt(&world, load), 6u);
}

TEST(Loaders, PadsWithZerosAndOtherValues) {
  World world({{"embed", kBF16, {50, 8}}, {"w", kF32, {12, 6}}, {"ones", kF32, {4}}});
  world.add("embed", kBF16, {64, 8});
  world.add("columns", kF32, {12, 16});
  world.add("ones", kF32, {9});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("embed", pad(get("embed"), 0, 64, 0));
    to->store("columns", pad(get("w"), 1, 16, 0));
    to->store("ones", pad(get("ones"), 0, 9, 1));
  };
  EXPECT_EQ(expect_learnt(&world, load), 3u);
}

TEST(Loaders, ZeroPaddingIsFilledAndOtherConstantsAreKept) {
  World world({{"a", kBF16, {6, 8}}, {"b", kBF16, {6, 8}}});
  world.add("a", kBF16, {8, 8});
  world.add("b", kBF16, {8, 8});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("a", pad(get("a"), 0, 8, 0));
    to->store("b", pad(get("b"), 0, 8, 1));
  };
  Prober prober(world.table(), {});
  add_buffers(&world, &prober);
  ASSERT_TRUE(run_probe(&world, load, &prober).ok());
  const auto& extras = prober.result()->layout.extras;
  ASSERT_EQ(extras.size(), 2u);
  EXPECT_EQ(extras[0].kind, ExtraKind::kZeroFill);
  EXPECT_EQ(extras[0].offset, 96u);
  EXPECT_EQ(extras[0].bytes, 32u);
  EXPECT_EQ(extras[1].kind, ExtraKind::kUnmapped);
  EXPECT_EQ(extras[1].name, "b (constant)");
}

TEST(Loaders, StacksExperts) {
  constexpr int kExperts = 16;
  std::vector<TensorInfo> tensors;
  for (int e = 0; e < kExperts; ++e) {
    for (const char* part : {"gate", "up"}) {
      tensors.push_back({std::to_string(e) + "." + part, kBF16, {6, 8}});
    }
    tensors.push_back({std::to_string(e) + ".scale", kF32, {}});
  }
  World world(tensors);
  world.add("w13", kBF16, {kExperts, 12, 8});
  world.add("scales", kF32, {kExperts});
  const auto load = [](const World::Fetch& get, World* to) {
    std::vector<Array> experts;
    for (int e = 0; e < kExperts; ++e) {
      const std::string name = std::to_string(e);
      experts.push_back(cat({get(name + ".gate"), get(name + ".up")}, 0));
      to->store("scales", get(name + ".scale"), e);
    }
    to->store("w13", stack(experts));
  };
  EXPECT_EQ(expect_learnt(&world, load), 3u * kExperts);
}

TEST(Loaders, FusedExpertsAreSplitAlongADimension) {
  World world({{"gate_up", kBF16, {4, 12, 10}}, {"down", kBF16, {4, 5, 12}}});
  world.add("w13", kBF16, {4, 10, 12});
  world.add("w2", kBF16, {4, 12, 5});
  const auto load = [](const World::Fetch& get, World* to) {
    // gpt-oss: transposed, gate and up in turns.
    const Array t = transpose(get("gate_up"), {0, 2, 1});
    to->store("w13", cat({slice(t, 1, 0, 5, 2), slice(t, 1, 1, 5, 2)}, 1));
    to->store("w2", transpose(get("down"), {0, 2, 1}));
  };
  EXPECT_EQ(expect_learnt(&world, load), 3u);
}

TEST(Loaders, PacksInFourLevels) {
  World world({{"w", kBF16, {64, 96}}});
  world.add("packed", kBF16, {64 * 96});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("packed", tiled(get("w"), 16, 2));
  };
  // Two levels in each dimension: the shorter ones, 4 rows of tiles and 2 columns, are written out.
  EXPECT_EQ(expect_learnt(&world, load), 4u * 2);
}

// Many periods in each block of the buffer, whole and cut, and a neighbour that goes on by chance.
TEST(Loaders, PacksLargeMatrices) {
  World world(
      {{"even", kBF16, {256, 256}}, {"odd", kBF16, {210, 99}}, {"bytes", kF8E4M3, {96, 160}}});
  world.add("even", kBF16, {2 * 256 * 256});
  world.add("odd", kBF16, {210 * 99 + 256 * 256});
  world.add("bytes", kF8E4M3, {96 * 160});
  const auto load = [](const World::Fetch& get, World* to) {
    const Array even = get("even");
    to->store("even", tiled(even, 16, 2));
    to->store("even", tiled(transpose(even, {1, 0}), 4, 8), 256 * 256);
    to->store("odd", tiled(get("odd"), 7, 3));
    to->store("odd", tiled(flip(even, 0), 2, 2), 210 * 99);
    to->store("bytes", tiled(get("bytes"), 4, 4));
  };
  EXPECT_LE(expect_learnt(&world, load), 300u);
}

TEST(Loaders, PacksInOddTiles) {
  World world({{"w", kBF16, {45, 33 * 3}}});
  world.add("packed", kBF16, {45 * 33 * 3});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("packed", tiled(get("w"), 5, 11));
  };
  EXPECT_LE(expect_learnt(&world, load), 5u * 9);
}

TEST(Loaders, SwapsHalvesPerHead) {
  World world({{"wq", kBF16, {4 * 16, 24}}});
  world.add("wq", kBF16, {4 * 16, 24});
  const auto load = [](const World::Fetch& get, World* to) {
    const Array heads = reshape(get("wq"), {4, 16, 24});
    to->store("wq", reshape(halves_swapped(heads, 1), {4 * 16, 24}));
  };
  EXPECT_LE(expect_learnt(&world, load), 8u);
}

TEST(Loaders, SwizzlesChunks) {
  World world({{"w", kBF16, {64, 64}}});
  world.add("w", kBF16, {64, 64});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("w", swizzled(get("w"), 8, 8));
  };
  EXPECT_LE(expect_learnt(&world, load), 64u);
}

TEST(Loaders, SeveralHomesAndTiedTensors) {
  World world({{"kv_b", kBF16, {8, 12}}, {"embed", kBF16, {10, 4}}, {"scale", kF32, {}}});
  world.add("kv_b", kBF16, {8, 12});
  world.add("w_uk_t", kBF16, {12, 4});
  world.add("w_uv", kBF16, {4, 12});
  world.add("embed", kBF16, {10, 4});
  world.add("head", kBF16, {10, 4});
  world.add("scales", kF32, {5});
  const auto load = [](const World::Fetch& get, World* to) {
    const Array kv = get("kv_b");
    to->store("kv_b", kv);
    to->store("w_uk_t", transpose(slice(kv, 0, 0, 4), {1, 0}));
    to->store("w_uv", slice(kv, 0, 4, 4));
    to->store("embed", get("embed"));
    to->store("head", get("embed"));
    to->store("scales", repeated(get("scale"), 5));
  };
  expect_learnt(&world, load);
}

TEST(Loaders, DroppedUntouchedAndPartlyLoaded) {
  World world({{"a", kBF16, {8, 8}}, {"rotary.inv_freq", kF32, {16}}, {"none", kBF16, {0, 4}}});
  world.add("a", kBF16, {10, 8});
  world.add("cos_sin_cache", kF32, {40});
  world.add("nothing", kF32, {0, 3});
  world.add("k_scale", kF32, {});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("a", get("a"), 8);
    to->store("k_scale", constant(kF32, {1}, 1.0));
  };
  expect_learnt(&world, load);
}

TEST(Loaders, CastsAreFoundButAreNoCopies) {
  World world({{"norm", kBF16, {32}},
               {"gate", kBF16, {6, 8}},
               {"half", kF16, {9}},
               {"ids", kI32, {12}},
               {"short", kU16, {12}}});
  world.add("norm", kF32, {32});
  world.add("gate", kF64, {6, 8});
  world.add("half", kF32, {9});
  world.add("ids", kI64, {12});
  world.add("short", kI32, {12});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("norm", cast(get("norm"), kF32));
    to->store("gate", cast(get("gate"), kF64));
    to->store("half", cast(get("half"), kF32));
    to->store("ids", cast(get("ids"), kI64));
    to->store("short", cast(get("short"), kI32));
  };
  EXPECT_EQ(expect_learnt(&world, load), 0u);
}

TEST(Loaders, ComputedValuesAreNoCopies) {
  World world({{"x", kBF16, {16, 16}}, {"y", kBF16, {16, 16}}, {"a_log", kF32, {64}}});
  for (const char* name : {"scaled", "negated", "sum", "plus", "shifted"}) {
    world.add(name, kBF16, {16, 16});
  }
  world.add("a", kF32, {64});
  world.add("quantised", kI8, {16, 16});
  world.add("scale", kF32, {});
  const auto load = [](const World::Fetch& get, World* to) {
    const Array x = get("x"), y = get("y");
    to->store("scaled", computed(x, [](double v) { return 2 * v; }));
    to->store("negated", computed(x, [](double v) { return -v; }));
    to->store("sum", sum(x, y));
    to->store("plus", computed(x, [](double v) { return v + 1; }));
    to->store("shifted", computed(y, [](double v) { return v / 4; }));
    to->store("a", computed(get("a_log"), [](double v) { return -std::exp(v); }));
    double scale = 0;
    to->store("quantised", quantised(x, &scale));
    to->store("scale", computed(slice(get("a_log"), 0, 0, 1), [&](double) { return scale; }));
  };
  EXPECT_EQ(expect_learnt(&world, load), 0u);
}

// Each leaves most values of a checkpoint alone, and some of them all that a test of few values
// has.
TEST(Loaders, FunctionsThatLeaveMostValuesAloneAreNoCopies) {
  using Function = double (*)(double);
  const std::vector<std::pair<const char*, Function>> functions = {
      {"abs", [](double v) { return std::abs(v); }},
      {"relu", [](double v) { return std::max(v, 0.0); }},
      {"leaky relu", [](double v) { return v < 0 ? v / 4 : v; }},
      {"clamp to FP8", [](double v) { return std::clamp(v, -128.0, 128.0); }},
      {"clamp below", [](double v) { return std::max(v, -200.0); }},
      {"clamp to 1", [](double v) { return std::clamp(v, -1.0, 1.0); }},
  };
  for (const auto& [name, function] : functions) {
    for (const DType dtype : {kBF16, kF16, kF32, kF64}) {
      SCOPED_TRACE(std::string(name) + " " + std::string(dtype_info(dtype).name));
      World world({{"w", dtype, {24, 16}}, {"v", dtype, {70}}, {"scalar", dtype, {1}}});
      world.add("w", dtype, {24, 16});
      world.add("v", dtype, {70});
      world.add("scalar", dtype, {1});
      const auto f = function;
      const auto load = [f](const World::Fetch& get, World* to) {
        for (const char* tensor : {"w", "v", "scalar"}) to->store(tensor, computed(get(tensor), f));
      };
      EXPECT_EQ(expect_learnt(&world, load), 0u);
    }
  }
}

TEST(Loaders, WhatIsOneSidedIsFoundInMatrices) {
  World world({{"w", kBF16, {64, 64}}, {"tiny", kF32, {64, 64}}});
  world.add("w", kBF16, {64, 64});
  world.add("tiny", kF32, {64, 64});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("w", computed(get("w"), [](double v) { return std::min(v, 448.0); }));
    to->store("tiny", computed(get("tiny"), [](double v) { return std::abs(v) < 1e-3 ? 0 : v; }));
  };
  EXPECT_EQ(expect_learnt(&world, load), 0u);
}

TEST(Loaders, AbsoluteIntegersAndBytesAreNoCopies) {
  for (const DType dtype : {kI8, kI16, kI32, kI64}) {
    SCOPED_TRACE(std::string(dtype_info(dtype).name));
    World world({{"w", dtype, {5, 8}}, {"same", dtype, {5, 8}}});
    world.add("w", dtype, {5, 8});
    world.add("same", dtype, {5, 8});
    const uint64_t sign = uint64_t{1} << (8 * element_bytes(dtype) - 1);
    const auto load = [=](const World::Fetch& get, World* to) {
      Array w = get("w");
      for (Cell& cell : w.cells) {
        const uint64_t mask = sign | (sign - 1);
        if ((cell.bits & sign) != 0) cell.bits = (~cell.bits + 1) & mask;
        cell.from = {Origin::kComputed, 0};
      }
      to->store("w", w);
      to->store("same", get("same"));
    };
    EXPECT_EQ(expect_learnt(&world, load), 1u);
  }
}

TEST(Loaders, BytesAndPackedTypes) {
  World world({{"e4m3", kF8E4M3, {300, 20}},
               {"e5m2", kF8E5M2, {7, 130}},
               {"int8", kI8, {200, 3}},
               {"u8", kU8, {16, 16}},
               {"f4", kF4, {6, 32}},
               {"f6", kF6E2M3, {5, 16}},
               {"e8m0", kF8E8M0, {40}},
               {"mask", kBool, {150}},
               {"c", kC64, {5, 3}},
               {"d", kF64, {3, 7}},
               {"i64", kI64, {20000}}});
  world.add("e4m3", kF8E4M3, {20, 300});
  world.add("e5m2", kF8E5M2, {7, 65});
  world.add("int8", kI8, {200, 4});
  world.add("u8", kU8, {16, 16});
  world.add("f4", kF4, {12, 16});
  world.add("f6", kU8, {5, 12});
  world.add("e8m0", kF8E8M0, {40});
  world.add("mask", kBool, {150});
  world.add("c", kC64, {3, 5});
  world.add("d", kF64, {3, 7});
  world.add("i64", kI64, {20000});
  world.add("raw e4m3", kU8, {300, 20});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("e4m3", transpose(get("e4m3"), {1, 0}));
    to->store("e5m2", slice(get("e5m2"), 1, 65, 65));
    to->store("int8", pad(get("int8"), 1, 4, 0));
    to->store("u8", tiled(get("u8"), 4, 4));
    to->store("f4", tiled(get("f4"), 3, 8));
    to->store("f6", get("f6"));
    to->store("e8m0", get("e8m0"));
    to->store("mask", get("mask"));
    to->store("c", transpose(get("c"), {1, 0}));
    to->store("d", flip(get("d"), 1));
    to->store("i64", get("i64"));
    to->store("raw e4m3", get("e4m3"));
  };
  expect_learnt(&world, load);
}

TEST(Loaders, DimensionsOfSeveralDigits) {
  World world({{"long", kBF16, {40000, 2}}, {"half", kF16, {9000}}, {"wide", kF16, {2, 5000}}});
  world.add("long", kBF16, {2, 40000});
  world.add("half", kF16, {9000});
  world.add("wide", kF16, {2, 5000});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("long", transpose(get("long"), {1, 0}));
    to->store("half", halves_swapped(get("half"), 0));
    to->store("wide", get("wide"));
  };
  EXPECT_LE(expect_learnt(&world, load), 4u);
}

TEST(Loaders, FlatShardsBeginAndEndInTheMiddleOfRows) {
  World world({{"a", kF32, {7, 9}}, {"b", kF32, {5}}, {"c", kF32, {3, 4, 5}}});
  world.add("flat", kF32, {50}, 12);
  const auto load = [](const World::Fetch& get, World* to) {
    const Array all = cat({reshape(get("a"), {63}), get("b"), reshape(get("c"), {60})}, 0);
    to->store("flat", slice(all, 0, 40, 50));
  };
  EXPECT_LE(expect_learnt(&world, load), 2u * 2 + 1 + 5);
}

TEST(Loaders, RankEightAndScalars) {
  World world({{"deep", kBF16, {2, 1, 3, 2, 2, 1, 2, 3}}, {"one", kBF16, {}}});
  world.add("deep", kBF16, {144});
  world.add("one", kBF16, {1});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("deep", transpose(get("deep"), {7, 2, 0, 1, 4, 5, 3, 6}));
    to->store("one", get("one"));
  };
  expect_learnt(&world, load);
}

TEST(Loaders, AllInOneOnManyThreads) {
  std::vector<TensorInfo> tensors;
  for (int i = 0; i < 40; ++i) tensors.push_back({"w" + std::to_string(i), kBF16, {64, 32}});
  World world(tensors);
  for (int i = 0; i < 40; ++i) world.add("p" + std::to_string(i), kBF16, {2048});
  const auto load = [](const World::Fetch& get, World* to) {
    for (int i = 39; i >= 0; --i) {  // in any order
      to->store("p" + std::to_string(i), tiled(get("w" + std::to_string(i)), 8, 4));
    }
  };
  Options options;
  options.threads = 4;
  expect_learnt(&world, load, options);
}

// What is too large to be watched element by element is told apart by blocks.
TEST(Loaders, LargeComputedBuffersWithLittleMemory) {
  World world({{"x", kBF16, {4096, 64}}, {"y", kBF16, {64, 64}}});
  world.add("x", kBF16, {4096, 64});
  world.add("cache", kBF16, {4096, 64});
  world.add("y", kBF16, {64, 64});
  const auto load = [](const World::Fetch& get, World* to) {
    to->store("x", computed(get("x"), [](double v) { return 3 * v; }));
    to->store("y", get("y"));
  };
  Options options;
  options.max_bytes = 1600 << 10;
  expect_learnt(&world, load, options);
}

}  // namespace
}  // namespace wb::probe::test
