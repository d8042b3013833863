#include "control/manifest.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "control/manifest_pieces.h"
#include "manifest_generated.h"
#include "transport/transport.h"

namespace wb {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

struct Model {
  TensorTable table;
  WorkerLayout layout;
};

// `layers` layers of `experts` experts, each a gate, an up and a down projection that are halves
// of a tensor; gate and up are fused in one buffer per layer. As a rank of tp=2 holds them.
Model mixture(int layers, int experts, int64_t rows, int64_t columns) {
  const auto name_of = [](int layer, int expert, const char* name) {
    return "model.layers." + std::to_string(layer) + ".mlp.experts." + std::to_string(expert) +
           "." + name + "_proj.weight";
  };
  std::vector<TensorInfo> tensors;
  for (int layer = 0; layer < layers; ++layer) {
    for (int expert = 0; expert < experts; ++expert) {
      for (const char* name : {"gate", "up"}) {
        tensors.push_back({name_of(layer, expert, name), DType::kBF16, {rows, columns}});
      }
      tensors.push_back({name_of(layer, expert, "down"), DType::kBF16, {columns, rows}});
    }
  }
  Model model;
  model.table = *TensorTable::make(std::move(tensors));
  const int64_t half = rows / 2;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    const auto w13 = static_cast<uint32_t>(model.layout.buffers.size());
    model.layout.buffers.push_back({prefix + "w13",
                                    DType::kBF16,
                                    {experts, 2 * half, columns},
                                    static_cast<uint64_t>(experts * 2 * half * columns * 2)});
    model.layout.buffers.push_back({prefix + "w2",
                                    DType::kBF16,
                                    {experts, columns, half},
                                    static_cast<uint64_t>(experts * columns * half * 2)});
    for (int expert = 0; expert < experts; ++expert) {
      const auto add = [&](const char* name, uint32_t buffer, bool by_rows, int64_t offset) {
        Piece piece;
        piece.tensor = *model.table.find(name_of(layer, expert, name));
        piece.buffer = buffer;
        const Progression cut{half, half, 1};
        const std::vector<Progression> dims = by_rows
                                                  ? std::vector<Progression>{cut, {0, columns, 1}}
                                                  : std::vector<Progression>{{0, columns, 1}, cut};
        piece.box = *Box::make(dims);
        piece.offset = offset;
        piece.stride[0] = (by_rows ? columns : half) * 2;
        piece.stride[1] = 2;
        model.layout.pieces.push_back(piece);
      };
      add("gate", w13, true, int64_t{expert} * 2 * half * columns * 2);
      add("up", w13, true, (int64_t{expert} * 2 + 1) * half * columns * 2);
      add("down", w13 + 1, false, int64_t{expert} * columns * half * 2);
    }
  }
  return model;
}

Manifest manifest_of(const Model& model) {
  Manifest manifest;
  manifest.worker = "trainer-3";
  manifest.rank = 3;
  manifest.world = 8;
  manifest.incarnation = random_id();
  manifest.table_digest = model.table.digest();
  manifest.mapping_digest = layout_digest(model.table, model.layout);
  manifest.slots = 2;
  manifest.in_place = false;
  manifest.layout = model.layout;
  uint64_t end = 0;
  for (const BufferInfo& buffer : model.layout.buffers) {
    manifest.placement.push_back({0, end});
    end += buffer.bytes;
  }
  manifest.region_bytes = {end};
  manifest.transports = {
      {static_cast<uint8_t>(TransportKind::kLocal), std::string("a\0\xff", 3), {"k0", "k1", ""}},
      {static_cast<uint8_t>(TransportKind::kUcx), "ucx", {"r0", "r1", "r2"}}};
  return manifest;
}

TEST(Manifest, ComesBackAsItWas) {
  Model model = mixture(2, 3, 8, 4);
  model.layout.buffers.push_back({"rope", DType::kF32, {7}, 28});
  model.layout.buffers.push_back({"scalar", DType::kF32, {}, 4});
  model.layout.extras.push_back({4, 0, 28, ExtraKind::kComputed, "rope.inv_freq"});
  const Manifest manifest = manifest_of(model);
  const std::string wire = encode_manifest(manifest);
  const auto back = decode_manifest(bytes_of(wire), model.table);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(back->worker, manifest.worker);
  EXPECT_EQ(back->rank, manifest.rank);
  EXPECT_EQ(back->world, manifest.world);
  EXPECT_EQ(back->incarnation, manifest.incarnation);
  EXPECT_EQ(back->mapping_digest, manifest.mapping_digest);
  EXPECT_EQ(back->slots, 2u);
  EXPECT_FALSE(back->in_place);
  EXPECT_EQ(back->layout.pieces, manifest.layout.pieces);
  EXPECT_EQ(back->region_bytes, manifest.region_bytes);
  ASSERT_EQ(back->placement.size(), manifest.placement.size());
  EXPECT_EQ(back->placement[3].offset, manifest.placement[3].offset);
  ASSERT_EQ(back->transports.size(), 2u);
  EXPECT_EQ(back->transports[0].address, manifest.transports[0].address);
  EXPECT_EQ(back->transports[1].keys, manifest.transports[1].keys);
  EXPECT_EQ(encode_manifest(*back), wire);
}

TEST(Manifest, SizesOfRealWorkers) {
  // DeepSeek-V3: 58 layers of 256 experts, three matrices each.
  const Model large = mixture(58, 256, 2048, 7168);
  ASSERT_EQ(large.layout.pieces.size(), 44'544u);
  const std::string wire = encode_manifest(manifest_of(large));
  RecordProperty("bytes_44544_pieces", static_cast<int>(wire.size()));
  EXPECT_LT(wire.size(), 10u << 20);
  ASSERT_TRUE(decode_manifest(bytes_of(wire), large.table).ok());
  const std::string worker = encode_manifest(manifest_of(mixture(60, 50, 2048, 7168)));
  RecordProperty("bytes_9000_pieces", static_cast<int>(worker.size()));
  EXPECT_LT(worker.size(), 1u << 20);
}

TEST(Manifest, EveryTruncationIsRefused) {
  const Model model = mixture(1, 2, 8, 4);
  const std::string wire = encode_manifest(manifest_of(model));
  for (size_t size = 0; size < wire.size(); ++size) {
    // A copy of its own, so that a sanitizer sees a read past the end.
    const std::vector<char> cut(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(decode_manifest(std::as_bytes(std::span(cut)), model.table).ok()) << size;
  }
}

TEST(Manifest, MutationsAreRefusedOrKeepTheMapping) {
  const Model model = mixture(1, 3, 8, 4);
  const Manifest manifest = manifest_of(model);
  const std::string wire = encode_manifest(manifest);
  std::mt19937 random(20'240'601);
  int refused = 0;
  int kept = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string mutant = wire;
    const auto changes = 1 + random() % 3;
    for (unsigned i = 0; i < changes; ++i) {
      const size_t at = random() % mutant.size();
      switch (random() % 3) {
        case 0:
          mutant[at] = static_cast<char>(random());
          break;
        case 1:
          mutant[at] = static_cast<char>(mutant[at] ^ (1 << (random() % 8)));
          break;
        default:
          mutant[at] = (random() % 2) != 0 ? '\xff' : '\0';
      }
    }
    const auto back = decode_manifest(bytes_of(mutant), model.table);
    if (!back.ok()) {
      ++refused;
      continue;
    }
    ++kept;
    ASSERT_EQ(back->mapping_digest, manifest.mapping_digest);
    ASSERT_EQ(layout_digest(model.table, back->layout), manifest.mapping_digest);
    for (const auto& transport : back->transports) ASSERT_EQ(transport.keys.size(), 3u);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(kept, 100) << "mutations of keys and padding change no mapping";
}

TEST(Manifest, AnotherTableIsAMismatch) {
  const Model model = mixture(1, 2, 8, 4);
  const Model other = mixture(1, 2, 8, 6);
  const std::string wire = encode_manifest(manifest_of(model));
  EXPECT_EQ(decode_manifest(bytes_of(wire), other.table).status().code(), Code::kMismatch);
}

TEST(Manifest, LiesAreBadData) {
  const Model model = mixture(1, 2, 8, 4);
  const Manifest good = manifest_of(model);
  ASSERT_TRUE(decode_manifest(bytes_of(encode_manifest(good)), model.table).ok());
  const auto refused = [&](const char* what, const std::function<void(Manifest*)>& lie) {
    Manifest bad = good;
    lie(&bad);
    EXPECT_EQ(decode_manifest(bytes_of(encode_manifest(bad)), model.table).status().code(),
              Code::kBadData)
        << what;
  };
  refused("rank", [](Manifest* m) { m->rank = 8; });
  refused("world", [](Manifest* m) { m->world = 0; });
  refused("name", [](Manifest* m) { m->worker.clear(); });
  refused("not UTF-8", [](Manifest* m) { m->worker = "\xff"; });
  refused("slots", [](Manifest* m) { m->slots = 0; });
  refused("keys of fewer slots", [](Manifest* m) { m->slots = 1; });
  refused("a key less", [](Manifest* m) { m->transports[0].keys.pop_back(); });
  refused("a transport twice", [](Manifest* m) { m->transports[1].kind = m->transports[0].kind; });
  refused("an unknown transport", [](Manifest* m) { m->transports[1].kind = 77; });
  refused("region too small", [](Manifest* m) { --m->region_bytes[0]; });
  refused("no such region", [](Manifest* m) { m->placement[0].region = 1; });
  refused("offset that wraps", [](Manifest* m) { m->placement[0].offset = ~uint64_t{0}; });
  refused("placement less", [](Manifest* m) { m->placement.pop_back(); });
  refused("buffer less", [](Manifest* m) { m->layout.buffers.pop_back(); });
  refused("dtype", [](Manifest* m) { m->layout.buffers[0].dtype = static_cast<DType>(99); });
  refused("piece outside its buffer", [](Manifest* m) { m->layout.pieces[0].offset = 1 << 20; });
  refused("piece before its buffer", [](Manifest* m) { m->layout.pieces[0].offset = -1; });
  refused("no such tensor", [](Manifest* m) { m->layout.pieces[0].tensor = 1000; });
  refused("no such buffer", [](Manifest* m) { m->layout.pieces[0].buffer = 1000; });
  refused("another mapping",
          [](Manifest* m) { std::swap(m->layout.pieces[0].offset, m->layout.pieces[1].offset); });
  refused("digest", [](Manifest* m) { m->mapping_digest.low ^= 1; });
}

// A manifest that the verifier accepts, of `buffers` buffers with one name and `pieces` pieces of
// four zero bytes each.
std::string crafted(const Model& model, size_t buffers, const std::string& name, uint32_t pieces) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(name);
  const std::vector<flatbuffers::Offset<flatbuffers::String>> many(buffers, text);
  const auto names = builder.CreateVector(many);
  const auto bytes = builder.CreateVector(std::vector<uint8_t>(buffers, 2));
  const auto ranks = builder.CreateVector(std::vector<uint8_t>(buffers, 0));
  const auto longs = builder.CreateVector(std::vector<uint64_t>(buffers, 1));
  const auto ints = builder.CreateVector(std::vector<uint32_t>(buffers, 0));
  const auto shape = builder.CreateVector(std::vector<int64_t>{});
  const auto columns = fb::CreateBuffers(builder, names, bytes, ranks, shape, longs, ints, longs);
  const auto none8 = builder.CreateVector(std::vector<uint8_t>{});
  const auto none32 = builder.CreateVector(std::vector<uint32_t>{});
  const auto none64 = builder.CreateVector(std::vector<uint64_t>{});
  const auto no_names =
      builder.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>{});
  const auto extras = fb::CreateExtras(builder, none32, none64, none64, none8, no_names);
  const auto words = builder.CreateVector(std::vector<uint8_t>(size_t{pieces} * 4, 0));
  const auto all_pieces = fb::CreatePieces(builder, pieces, words);
  const auto transports = builder.CreateVector(std::vector<flatbuffers::Offset<fb::Transport>>{});
  const auto worker = builder.CreateString("w");
  const fb::Id id(1, 1);
  const fb::Id table(model.table.digest().low, model.table.digest().high);
  builder.Finish(fb::CreateManifest(builder, 1, worker, 0, 1, &id, &table, &id, 1, true, longs,
                                    columns, all_pieces, extras, transports),
                 fb::ManifestIdentifier());
  return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
}

Status refusal(const Model& model, const std::string& wire) {
  return decode_manifest(bytes_of(wire), model.table).status();
}

// One long string that a hundred thousand names point to: copying them would take 100 GB.
TEST(Manifest, AliasedNamesAreNotCopiedWithoutBound) {
  const Model model = mixture(1, 2, 8, 4);
  const Status status = refusal(model, crafted(model, 100'000, std::string(1'000'000, 'n'), 0));
  EXPECT_EQ(status.code(), Code::kBadData);
}

// Small on the wire, large as objects.
TEST(Manifest, WhatItDecodesToIsBounded) {
  const Model model = mixture(1, 2, 8, 4);
  for (const auto& [buffers, pieces] :
       {std::pair<size_t, uint32_t>{0, 4'000'000}, {1'000'000, 800'000}}) {
    const Status status = refusal(model, crafted(model, buffers, "", pieces));
    EXPECT_EQ(status.code(), Code::kBadData);
    EXPECT_NE(status.message().find("when decoded"), std::string::npos) << status.to_string();
  }
}

TEST(Pieces, CountsThatLieAreRefused) {
  const Model model = mixture(1, 2, 8, 4);
  const std::vector<uint8_t> words = encode_pieces(model.layout.pieces);
  const auto count = static_cast<uint32_t>(model.layout.pieces.size());
  EXPECT_TRUE(decode_pieces(words, count).ok());
  for (const uint32_t lie : {count - 1, count + 1, 0u, UINT32_MAX}) {
    EXPECT_FALSE(decode_pieces(words, lie).ok()) << lie;
  }
  const std::vector<uint8_t> endless(64, 0xFF);
  EXPECT_FALSE(decode_pieces(endless, 1).ok());
}

}  // namespace
}  // namespace wb
