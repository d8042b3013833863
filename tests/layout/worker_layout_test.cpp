#include "layout/worker_layout.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "many.h"

namespace wb {
namespace {

constexpr auto kSource = LayoutRole::kSource;
constexpr auto kReceiver = LayoutRole::kReceiver;

TensorTable table_of(std::vector<TensorInfo> tensors) {
  auto table = TensorTable::make(std::move(tensors));
  EXPECT_TRUE(table.ok()) << table.status().to_string();
  return *table;
}

// Tensor 0 "a": BF16 [8, 16]; tensor 1 "b": BF16 [8, 16]; tensor 2 "s": a scalar.
const TensorTable& table() {
  static const TensorTable tensors = table_of(
      {{"a", DType::kBF16, {8, 16}}, {"b", DType::kBF16, {8, 16}}, {"s", DType::kF32, {}}});
  return tensors;
}

Piece piece(uint32_t tensor, std::vector<Progression> dims, int64_t offset,
            std::vector<int64_t> strides) {
  Piece out;
  out.tensor = tensor;
  out.box = *Box::make(dims);
  out.offset = offset;
  std::copy(strides.begin(), strides.end(), out.stride.begin());
  return out;
}

Piece whole(uint32_t tensor, int64_t offset, std::vector<int64_t> strides) {
  return piece(tensor, {{0, 8, 1}, {0, 16, 1}}, offset, std::move(strides));
}

// One buffer "w" of `bytes` bytes.
WorkerLayout layout_of(std::vector<Piece> pieces, uint64_t bytes = 512) {
  WorkerLayout layout;
  layout.buffers.push_back({"w", DType::kU8, {static_cast<int64_t>(bytes)}, bytes});
  layout.pieces = std::move(pieces);
  return layout;
}

void expect_refused(const WorkerLayout& layout, LayoutRole role, std::vector<std::string> words,
                    const TensorTable& tensors = table()) {
  const Status status = check_layout(tensors, layout, role);
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
  for (const std::string& word : words) {
    EXPECT_NE(status.message().find(word), std::string::npos)
        << word << " in: " << status.message();
  }
}

void expect_ok(const WorkerLayout& layout, LayoutRole role) {
  const Status status = check_layout(table(), layout, role);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST(CheckLayout, TakesWhatFrameworksMake) {
  expect_ok(layout_of({whole(0, 0, {32, 2}), whole(1, 256, {32, 2})}), kReceiver);
  expect_ok(layout_of({whole(0, 0, {64, 2}), whole(1, 32, {64, 2})}), kReceiver);  // columns
  expect_ok(layout_of({whole(0, 0, {64, 4}), whole(1, 2, {64, 4})}), kReceiver);   // interleaved
  expect_ok(layout_of({whole(0, 0, {2, 16})}), kReceiver);                         // transposed
  expect_ok(layout_of({whole(0, 254, {-32, -2})}), kReceiver);                     // reversed
  expect_ok(layout_of({piece(2, {}, 508, {})}), kReceiver);                        // scalar
  expect_ok(layout_of({}), kReceiver);
  expect_ok(layout_of({piece(0, {{1, 4, 2}, {3, 5, 3}}, 0, {10, 2})}), kReceiver);
}

TEST(CheckLayout, NamesBufferTensorsAndByteOfAnOverlap) {
  // Row 3 of "b" begins at 3 * 64 + 31: one byte inside the end of "a" 's row 3.
  expect_refused(layout_of({whole(0, 0, {64, 2}), piece(1, {{0, 1, 1}, {0, 16, 1}}, 223, {0, 2})}),
                 kReceiver, {"'w'", "'a'", "'b'", "byte 223 "});
  expect_refused(layout_of({whole(0, 0, {64, 4}), whole(1, 1, {64, 4})}), kReceiver,
                 {"'w'", "'a'", "'b'", "byte 1 "});
  expect_refused(layout_of({whole(0, 0, {32, 2}), whole(0, 0, {32, 2})}), kReceiver, {"byte 0 "});
  // As sources they stand for several coordinates.
  expect_ok(layout_of({whole(0, 0, {32, 2}), whole(1, 0, {32, 2})}), kSource);
}

TEST(CheckLayout, NamesAPieceThatFoldsOverItself) {
  expect_refused(layout_of({whole(0, 0, {32, 0})}), kReceiver, {"'w'", "'a'", "dimension 1"});
  expect_refused(layout_of({whole(0, 0, {30, 2})}), kReceiver, {"'w'", "'a'", "byte 30 twice"});
  expect_refused(layout_of({whole(0, 0, {32, 1})}), kReceiver, {"byte 1 twice"});
  expect_ok(layout_of({whole(0, 0, {32, 0})}), kSource);
  expect_ok(layout_of({whole(0, 0, {0, 0})}), kSource);
  expect_ok(layout_of({whole(0, 0, {30, 2})}), kSource);
}

TEST(CheckLayout, BoundsHoldForBothSides) {
  for (const LayoutRole role : {kSource, kReceiver}) {
    expect_refused(layout_of({whole(0, 257, {32, 2})}), role, {"'w'", "'a'", "512 bytes"});
    expect_refused(layout_of({whole(0, -2, {32, 2})}), role, {"'a'"});
    expect_refused(layout_of({whole(0, 222, {-32, 2})}), role, {"'a'"});
    expect_refused(layout_of({piece(0, {{1, 8, 1}, {0, 16, 1}}, 0, {32, 2})}), role,
                   {"coordinate 8", "dimension 0"});
    expect_refused(layout_of({piece(0, {{0, 8, 1}}, 0, {32})}), role, {"1 dimensions"});
    expect_refused(layout_of({piece(3, {}, 0, {})}), role, {"tensor 3"});
    Piece other = whole(0, 0, {32, 2});
    other.buffer = 1;
    expect_refused(layout_of({other}), role, {"buffer 1 of 1"});
    constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    for (const int64_t offset : {kMin, int64_t{0}, kMax}) {
      for (const int64_t stride : {kMin, kMax}) {
        expect_refused(layout_of({whole(0, offset, {stride, stride})}), role, {"'a'"});
      }
    }
  }
}

TEST(CheckLayout, BuffersHoldTheirShape) {
  const auto buffer = [](BufferInfo info) {
    WorkerLayout layout;
    layout.buffers.push_back(std::move(info));
    return layout;
  };
  constexpr int64_t kHuge = int64_t{1} << 40;
  expect_ok(buffer({"w", DType::kF4, {3}, 2}), kReceiver);
  expect_ok(buffer({"w", DType::kF32, {0, kHuge, kHuge}, 0}), kReceiver);
  expect_refused(buffer({"w", DType::kF4, {5}, 2}), kReceiver, {"'w'", "2 bytes"});
  expect_refused(buffer({"w", DType::kF32, {3}, 11}), kReceiver, {"'w'", "11 bytes"});
  expect_refused(buffer({"w", DType::kF32, {kHuge, kHuge}, 1}), kReceiver, {"'w'"});
  expect_refused(buffer({"w", DType::kF32, {-1}, 4}), kReceiver, {"'w'", "negative"});
  expect_refused(buffer({"w", static_cast<DType>(99), {1}, 4}), kReceiver, {"'w'", "dtype"});
  expect_refused(buffer({"w", DType::kU8, {1}, ~uint64_t{0}}), kReceiver, {"'w'"});
  expect_refused(buffer({"w\xff", DType::kU8, {1}, 1}), kReceiver, {"UTF-8"});
  // Bytes are copied, never converted.
  WorkerLayout other = buffer({"w", DType::kF32, {8, 16}, 512});
  Piece piece;
  piece.box = *Box::whole(std::vector<int64_t>{8, 16});
  piece.stride = {32, 2};
  other.pieces.push_back(piece);
  expect_refused(other, kReceiver, {"'w'", "BF16", "F32"});
  expect_refused(other, LayoutRole::kSource, {"'w'", "BF16", "F32"});
  other.buffers[0].dtype = DType::kBF16;
  expect_ok(other, kReceiver);
}

TEST(CheckLayout, ExtrasStayInTheirBufferAndApartFromPieces) {
  WorkerLayout layout = layout_of({whole(0, 0, {32, 2})});
  layout.extras.push_back({0, 256, 256, ExtraKind::kZeroFill, "pad"});
  expect_ok(layout, kReceiver);
  layout.extras[0].offset = 255;
  expect_refused(layout, kReceiver, {"'w'", "'a'", "zero fill 'pad'", "byte 255 "});
  expect_ok(layout, kSource);
  layout.extras[0].kind = ExtraKind::kUnmapped;
  expect_ok(layout, kReceiver);
  layout.extras[0] = {0, 257, 256, ExtraKind::kComputed, "rope"};
  expect_refused(layout, kSource, {"'w'", "'rope'"});
  layout.extras[0] = {0, ~uint64_t{0}, 2, ExtraKind::kComputed, "rope"};
  expect_refused(layout, kReceiver, {"'rope'"});
  layout.extras[0] = {1, 0, 1, ExtraKind::kComputed, "rope"};
  expect_refused(layout, kReceiver, {"'rope'", "buffer 1"});
  layout.extras[0] = {0, 0, 1, static_cast<ExtraKind>(0), "rope"};
  expect_refused(layout, kReceiver, {"'rope'", "kind"});
}

// A layout too irregular to decide is refused, not accepted and not worked on for ever.
TEST(CheckLayout, EndsOnWhatNoFrameworkMakes) {
  const std::vector<int64_t> shape(7, 60);
  const TensorTable tensors = table_of({{"x", DType::kU8, shape}, {"y", DType::kU8, shape}});
  WorkerLayout layout = layout_of({}, uint64_t{1} << 60);
  for (const uint32_t tensor : {0u, 1u}) {
    std::vector<int64_t> strides;
    int64_t stride = 1009 + tensor * 777;
    for (int d = 0; d < 7; ++d) {
      strides.push_back(stride);
      stride = stride * 61 + 12'345 + tensor;
    }
    layout.pieces.push_back(
        piece(tensor, std::vector<Progression>(7, {0, 60, 1}), tensor, strides));
  }
  const Status status = check_layout(tensors, layout, kReceiver);
  EXPECT_TRUE(status.ok() || status.code() == Code::kUnsupported ||
              status.code() == Code::kInvalidArgument)
      << status.to_string();
}

// Every piece of random receivers, byte by byte.
TEST(CheckLayout, AgreesWithCountingBytes) {
  int taken = 0, refused = 0;
  EXPECT_TRUE(rc::check(many([&] {
    std::vector<Piece> pieces;
    const auto count = *rc::gen::inRange(1, 4);
    for (int i = 0; i < count; ++i) {
      const auto rows = *rc::gen::inRange<int64_t>(1, 5);
      const auto columns = *rc::gen::inRange<int64_t>(1, 5);
      pieces.push_back(
          piece(static_cast<uint32_t>(*rc::gen::inRange(0, 2)), {{0, rows, 1}, {0, columns, 1}},
                *rc::gen::inRange<int64_t>(0, 200),
                {*rc::gen::inRange<int64_t>(-60, 60), *rc::gen::inRange<int64_t>(-8, 9)}));
    }
    constexpr int64_t kBytes = 300;
    bool expected = true;
    std::set<int64_t> written;
    for (const Piece& p : pieces) {
      for (int64_t i = 0; i < p.box.dim(0).count; ++i) {
        for (int64_t j = 0; j < p.box.dim(1).count; ++j) {
          for (int64_t b = 0; b < 2; ++b) {
            const int64_t at = p.offset + i * p.stride[0] + j * p.stride[1] + b;
            expected = expected && at >= 0 && at < kBytes && written.insert(at).second;
          }
        }
      }
    }
    RC_ASSERT(check_layout(table(), layout_of(pieces, kBytes), kReceiver).ok() == expected);
    ++(expected ? taken : refused);
  })));
  EXPECT_GT(taken, 50);
  EXPECT_GT(refused, 50);
}

TEST(WorkerLayout, PieceBytesSaturate) {
  EXPECT_EQ(layout_of({whole(0, 0, {32, 2}), piece(2, {}, 0, {})}).piece_bytes(table()), 260u);
  const TensorTable huge = table_of({{"x", DType::kU8, {int64_t{1} << 62}}});
  const Piece all = piece(0, {{0, int64_t{1} << 62, 1}}, 0, {0});
  EXPECT_EQ(layout_of({all, all, all, all, all}).piece_bytes(huge), ~uint64_t{0});
}

TEST(WorkerLayout, DigestNamesTheWholeMapping) {
  WorkerLayout base = layout_of({whole(0, 0, {32, 2}), whole(1, 256, {32, 2})});
  base.extras.push_back({0, 0, 1, ExtraKind::kUnmapped, "x"});
  std::set<Digest> all = {layout_digest(table(), base)};
  size_t changes = 0;
  const auto change = [&](auto edit) {
    WorkerLayout layout = base;
    edit(&layout);
    all.insert(layout_digest(table(), layout));
    ++changes;
  };
  change([](WorkerLayout* l) { l->buffers[0].name = "v"; });
  change([](WorkerLayout* l) { l->buffers[0].dtype = DType::kI8; });
  change([](WorkerLayout* l) { l->buffers[0].shape = {256, 2}; });
  change([](WorkerLayout* l) { l->buffers[0].bytes = 513; });
  change([](WorkerLayout* l) { l->pieces[0].tensor = 1; });
  change([](WorkerLayout* l) { l->pieces[0].offset = 2; });
  change([](WorkerLayout* l) { l->pieces[0].stride[0] = 34; });
  change([](WorkerLayout* l) { l->pieces[0].box = l->pieces[0].box.with_dim(0, {0, 7, 1}); });
  change([](WorkerLayout* l) { std::swap(l->pieces[0], l->pieces[1]); });
  change([](WorkerLayout* l) { l->pieces.pop_back(); });
  change([](WorkerLayout* l) { l->extras[0].kind = ExtraKind::kComputed; });
  change([](WorkerLayout* l) { l->extras[0].name = "y"; });
  change([](WorkerLayout* l) { l->extras[0].offset = 1; });
  change([](WorkerLayout* l) { l->extras.clear(); });
  EXPECT_EQ(all.size(), changes + 1);
  EXPECT_EQ(layout_digest(table(), base), layout_digest(table(), WorkerLayout(base)));
}

}  // namespace
}  // namespace wb
