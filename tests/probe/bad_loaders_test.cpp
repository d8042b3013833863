// Loaders that misbehave: each is an error or a classification that names the tensor, and the
// worker's memory is as before.
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "world.h"

namespace wb::probe::test {
namespace {

using enum DType;

World two_tensors() {
  World world({{"a", kBF16, {16, 8}}, {"b", kBF16, {16, 8}}});
  world.add("a", kBF16, {16, 8});
  world.add("b", kBF16, {16, 8});
  world.add("cache", kF32, {10});
  return world;
}

void load_both(const World::Fetch& get, World* to) {
  to->store("a", get("a"));
  to->store("b", get("b"));
}

std::vector<std::vector<uint64_t>> memory_of(World* world) {
  std::vector<std::vector<uint64_t>> all;
  for (Buffer& buffer : world->buffers()) all.push_back(buffer.storage);
  return all;
}

// Fails with `code` and a sentence with `word`; abort puts everything back.
void expect_refused(World* world, const World::Loader& loader, Code code, const std::string& word) {
  world->fill_with_garbage(3);
  const auto before = memory_of(world);
  Prober prober(world->table(), {});
  add_buffers(world, &prober);
  const Status status = run_probe(world, loader, &prober);
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_NE(status.message().find(word), std::string::npos) << status.to_string();
  EXPECT_EQ(prober.begin_pass().status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(prober.result(), nullptr);
  EXPECT_FALSE(prober.abort());
  EXPECT_TRUE(memory_of(world) == before);
}

TEST(BadLoaders, ThrowsHalfWayAtEveryPass) {
  for (int at = 0;; ++at) {
    World world = two_tensors();
    world.fill_with_garbage(5);
    const auto before = memory_of(&world);
    bool thrown = false;
    int loads = 0;
    {
      Prober prober(world.table(), {});
      add_buffers(&world, &prober);
      try {
        const auto loader = [&](const World::Fetch& get, World* to) {
          to->store("a", get("a"));
          if (loads++ == at) throw std::runtime_error("half-way");
          to->store("b", get("b"));
        };
        ASSERT_TRUE(run_probe(&world, loader, &prober).ok());
      } catch (const std::runtime_error&) {
        thrown = true;
      }
    }  // the end of the prober is an abort
    EXPECT_TRUE(memory_of(&world) == before) << "pass " << at;
    if (!thrown) {
      EXPECT_GE(at, 5);
      return;
    }
  }
}

TEST(BadLoaders, AbortAsksForAReloadAndPutsUntouchedBytesBack) {
  for (int at = 0; at < 8; ++at) {
    World world = two_tensors();
    world.fill_with_garbage(5);
    world.load_weights(load_both);
    const auto before = memory_of(&world);
    Options options;
    options.restore = Restore::kReload;
    Prober prober(world.table(), options);
    EXPECT_FALSE(prober.abort()) << "nothing has happened yet";
    Prober again(world.table(), options);
    add_buffers(&world, &again);
    int loads = 0;
    try {
      const auto loader = [&](const World::Fetch& get, World* to) {
        if (loads++ == at) throw std::runtime_error("half-way");
        load_both(get, to);
      };
      ASSERT_TRUE(run_probe(&world, loader, &again).ok());
    } catch (const std::runtime_error&) {
      EXPECT_TRUE(again.abort());
      EXPECT_TRUE(again.abort()) << "still true";
      EXPECT_TRUE(world.buffer("cache").storage == before[2]) << "pass " << at;
      world.load_weights(load_both);
    }
    EXPECT_TRUE(memory_of(&world) == before) << "pass " << at;
  }
}

TEST(BadLoaders, ShufflesItsRowsDifferentlyEachTime) {
  World world = two_tensors();
  int loads = 0;
  const auto loader = [&](const World::Fetch& get, World* to) {
    const int64_t cut = 1 + 5 * loads++ % 14;
    const Array a = get("a");
    to->store("a", cat({slice(a, 0, cut, 16 - cut), slice(a, 0, 0, cut)}, 0));
    to->store("b", get("b"));
  };
  expect_refused(&world, loader, Code::kMismatch, "not deterministic");
}

TEST(BadLoaders, ChangesItsMindAboutWhatItCopiedOnce) {
  World world = two_tensors();
  Prober prober(world.table(), {});
  add_buffers(&world, &prober);
  int loads = 0;
  const auto loader = [&](const World::Fetch& get, World* to) {
    to->store("a", get("a"));
    const Array b = get("b");
    // Three planes and A; then no copy in B, and of the two loads of C one is.
    const bool copies = loads != 4 && loads != 6;
    to->store("b", copies ? b : computed(b, [](double v) { return 2 * v; }));
    ++loads;
  };
  const Status status = run_probe(&world, loader, &prober);
  EXPECT_EQ(status.code(), Code::kMismatch);
  EXPECT_NE(status.message().find("buffer 'b'"), std::string::npos) << status.to_string();
}

TEST(BadLoaders, StopsCopyingAfterSomeLoads) {
  for (int good = 4; good < 7; ++good) {
    World world = two_tensors();
    int loads = 0;
    const auto loader = [&](const World::Fetch& get, World* to) {
      to->store("a", get("a"));
      if (loads++ < good) to->store("b", get("b"));
    };
    Prober prober(world.table(), {});
    add_buffers(&world, &prober);
    const Status status = run_probe(&world, loader, &prober);
    if (status.ok()) {
      // Only the repetition of a load was left out: what was learnt is true.
      EXPECT_EQ(good, 6);
      continue;
    }
    EXPECT_EQ(status.code(), Code::kMismatch);
    EXPECT_EQ(status.facts().tensor, "b");
    EXPECT_NE(status.message().find("'b'"), std::string::npos);
  }
}

TEST(BadLoaders, WritesRandomNoise) {
  World world = two_tensors();
  uint64_t noise = 1;
  const auto loader = [&](const World::Fetch& get, World* to) {
    to->store("a", get("a"));
    for (int64_t i = 0; i < 128; ++i) {
      noise = noise * 6364136223846793005u + 1;
      to->store_cell("b", i, {noise >> 48, {Origin::kComputed, 0}});
    }
  };
  expect_refused(&world, loader, Code::kMismatch, "'b'");
}

TEST(BadLoaders, MovesABuffer) {
  for (const int at : {0, 2, 6}) {
    World world = two_tensors();
    world.fill_with_garbage(9);
    const auto before = memory_of(&world);
    std::vector<uint64_t> old;  // kept by its owner, as a framework may not
    int loads = 0;
    const auto loader = [&](const World::Fetch& get, World* to) {
      if (loads++ == at) {
        Buffer& b = to->buffer("b");
        std::vector<uint64_t> fresh = b.storage;
        old = std::exchange(b.storage, std::move(fresh));
      }
      load_both(get, to);
    };
    Prober prober(world.table(), {});
    add_buffers(&world, &prober);
    const Status status = run_probe(&world, loader, &prober);
    EXPECT_EQ(status.code(), Code::kMismatch);
    EXPECT_NE(status.message().find("moved buffer 'b'"), std::string::npos) << status.to_string();
    old.assign(old.size(), 0xABABABAB);  // whose memory it is now, nobody knows
    EXPECT_FALSE(prober.abort());
    EXPECT_TRUE(world.buffer("a").storage == before[0]);
    EXPECT_TRUE(world.buffer("cache").storage == before[2]);
    EXPECT_TRUE(old == std::vector<uint64_t>(old.size(), 0xABABABAB));
  }
}

TEST(BadLoaders, MakesOrDropsBuffers) {
  World world = two_tensors();
  Prober prober(world.table(), {});
  add_buffers(&world, &prober);
  ASSERT_TRUE(prober.begin_pass().ok());
  std::vector<Place> places;
  for (Buffer& buffer : world.buffers()) {
    places.push_back({buffer.name, buffer.data(), buffer.bytes()});
  }
  places.push_back({"c", places[0].data, 4});
  const Status made = prober.end_pass(places, true);
  EXPECT_EQ(made.code(), Code::kMismatch);
  EXPECT_NE(made.message().find("new buffer 'c'"), std::string::npos);

  Prober other(world.table(), {});
  add_buffers(&world, &other);
  ASSERT_TRUE(other.begin_pass().ok());
  const Status gone = other.end_pass({}, true);
  EXPECT_EQ(gone.code(), Code::kMismatch);
  EXPECT_NE(gone.message().find("'a' is not among the live tensors"), std::string::npos);
}

TEST(BadLoaders, DropsANameAndReadsInPlace) {
  World world = two_tensors();
  const auto drops = [](const World::Fetch& get, World* to) { to->store("a", get("a")); };
  Prober prober(world.table(), {});
  add_buffers(&world, &prober);
  ASSERT_TRUE(run_probe(&world, drops, &prober).ok());
  EXPECT_EQ(compare(&world, prober), "");
  EXPECT_EQ(prober.result()->homes[1].none, 128u);

  // Adds to what is there: never the same value, so never a copy.
  World adding = two_tensors();
  const auto adds = [](const World::Fetch& get, World* to) {
    Array a = get("a");
    Buffer& buffer = to->buffer("a");
    for (size_t i = 0; i < a.cells.size(); ++i) {
      uint16_t now = 0;
      std::memcpy(&now, buffer.data() + 2 * i, 2);
      a.cells[i] = {(a.cells[i].bits + now) & 0xFFFF, {Origin::kComputed, 0}};
    }
    to->store("a", a);
    to->store("b", get("b"));
  };
  expect_refused(&adding, adds, Code::kMismatch, "'a'");
}

TEST(BadLoaders, KeepsReferencesToProbeTensors) {
  World world = two_tensors();
  Prober prober(world.table(), {});
  add_buffers(&world, &prober);
  std::vector<std::pair<const std::byte*, std::vector<std::byte>>> kept;
  for (;;) {
    const auto pass = prober.begin_pass();
    ASSERT_TRUE(pass.ok());
    if (pass->kind == PassKind::kDone) break;
    for (size_t t = 0; t < 2; ++t) {
      const auto view = prober.view(t);
      ASSERT_TRUE(view.ok());
      kept.push_back({view->data, {view->data, view->data + 16}});
    }
    load_both([&](const std::string& name) { return world.probe_tensor(prober, name == "b"); },
              &world);
    ASSERT_TRUE(prober.end_pass({}, false).ok());
  }
  for (const auto& [data, bytes] : kept) {
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), data));
  }
}

TEST(BadInput, BuffersThatOverlap) {
  World world = two_tensors();
  Prober prober(world.table(), {});
  Buffer& a = world.buffer("a");
  ASSERT_TRUE(prober.add_buffer({"x", kBF16, {8}, 16}, a.data()).ok());
  ASSERT_TRUE(prober.add_buffer({"y", kBF16, {8}, 16}, a.data() + 8).ok());
  const Status status = prober.begin_pass().status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("'x' and 'y'"), std::string::npos) << status.to_string();
}

TEST(BadInput, NamesTwiceNullMemoryAndWrongOrder) {
  World world = two_tensors();
  Prober prober(world.table(), {});
  std::byte* const data = world.buffer("a").data();
  ASSERT_TRUE(prober.add_buffer({"x", kBF16, {8}, 16}, data).ok());
  EXPECT_EQ(prober.add_buffer({"x", kBF16, {8}, 16}, data + 64).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(prober.add_buffer({"y", kBF16, {8}, 16}, nullptr).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(prober.end_pass({}, false).code(), Code::kFailedPrecondition);
  EXPECT_EQ(prober.view(0).status().code(), Code::kFailedPrecondition);
  ASSERT_TRUE(prober.begin_pass().ok());
  EXPECT_EQ(prober.begin_pass().status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(prober.view(2).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(prober.add_buffer({"z", kBF16, {8}, 16}, data + 64).status().code(),
            Code::kFailedPrecondition);
}

TEST(BadInput, ViewsInsideBuffersAreAliases) {
  World world({{"embed", kBF16, {16, 8}}, {"head", kBF16, {16, 8}}});
  world.add("embed", kBF16, {16, 8});
  Buffer& embed = world.buffer("embed");
  Prober prober(world.table(), {});
  ASSERT_TRUE(prober.add_buffer({"bytes", kU8, {256}, 256}, embed.data()).ok());
  add_buffers(&world, &prober);
  ASSERT_TRUE(prober.add_buffer({"tied", kBF16, {16, 8}, 256}, embed.data()).ok());
  ASSERT_TRUE(prober.add_buffer({"row", kBF16, {8}, 16}, embed.data() + 32).ok());
  const auto loader = [](const World::Fetch& get, World* to) {
    to->store("embed", get("head"));
    to->store("embed", get("embed"));
  };
  ASSERT_TRUE(run_probe(&world, loader, &prober, false).ok());
  EXPECT_EQ(compare(&world, prober), "");
  const auto& aliases = prober.result()->aliases;
  ASSERT_EQ(aliases.size(), 3u);
  EXPECT_EQ(aliases[0].name, "bytes");
  EXPECT_EQ(aliases[1].name, "row");
  EXPECT_EQ(aliases[1].owner, "embed");
  EXPECT_EQ(aliases[1].offset, 32u);
  EXPECT_EQ(prober.result()->homes[1].none, 128u) << "the tensor that was overwritten";
}

TEST(BadInput, AbsurdShapesAndNoTensorsAtAll) {
  const auto huge = TensorTable::make({{"huge", kU8, {int64_t{1} << 40, 1 << 12}}});
  ASSERT_TRUE(huge.ok());
  Prober many(*huge, {});
  EXPECT_EQ(many.begin_pass().status().code(), Code::kUnsupported);

  const auto line = TensorTable::make({{"line", kU8, {int64_t{1} << 40}}});
  ASSERT_TRUE(line.ok());
  Prober long_line(*line, {});
  ASSERT_TRUE(long_line.begin_pass().ok()) << "the tensor's number";
  ASSERT_TRUE(long_line.end_pass({}, false).ok());
  const Status status = long_line.begin_pass().status();
  EXPECT_EQ(status.code(), Code::kNoMemory) << "a coordinate for each element";
  EXPECT_NE(status.message().find("max_bytes"), std::string::npos);

  World empty(std::vector<TensorInfo>{});
  empty.add("w", kF32, {4});
  Prober prober(empty.table(), {});
  add_buffers(&empty, &prober);
  ASSERT_TRUE(run_probe(
                  &empty, [](const World::Fetch&, World*) {}, &prober)
                  .ok());
  EXPECT_EQ(compare(&empty, prober), "");
}

TEST(BadInput, NoMemoryForTheBackup) {
  World world = two_tensors();
  const auto before = memory_of(&world);
  Options options;
  options.reserve = [](uint64_t) { return Status(Code::kNoMemory, "full"); };
  Prober prober(world.table(), options);
  add_buffers(&world, &prober);
  EXPECT_EQ(prober.begin_pass().status().code(), Code::kNoMemory);
  EXPECT_TRUE(memory_of(&world) == before);

  options = Options();
  options.backup_folder = "/nonexistent";
  Prober other(world.table(), options);
  add_buffers(&world, &other);
  EXPECT_EQ(other.begin_pass().status().code(), Code::kNotFound);
}

TEST(BadInput, BackupInAFile) {
  World world = two_tensors();
  world.fill_with_garbage(1);
  const auto before = memory_of(&world);
  Options options;
  options.backup_folder = testing::TempDir();
  Prober prober(world.table(), options);
  add_buffers(&world, &prober);
  ASSERT_TRUE(run_probe(&world, load_both, &prober).ok());
  EXPECT_EQ(compare(&world, prober), "");
  EXPECT_TRUE(memory_of(&world) == before);
  EXPECT_EQ(prober.result()->backup_bytes, 256u + 256 + 40);
}

TEST(Result, DoesNotDependOnTheSeedOrOnThreads) {
  std::vector<std::string> digests;
  for (const uint64_t seed : {0u, 1u, 2u}) {
    World world = two_tensors();
    Options options;
    options.seed = seed;
    options.threads = static_cast<unsigned>(1 + seed);
    Prober prober(world.table(), options);
    add_buffers(&world, &prober);
    ASSERT_TRUE(run_probe(&world, load_both, &prober).ok());
    digests.push_back(prober.result()->digest_text);
  }
  EXPECT_EQ(digests[0], digests[1]);
  EXPECT_EQ(digests[0], digests[2]);
}

}  // namespace
}  // namespace wb::probe::test
