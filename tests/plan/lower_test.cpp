// Shapes of real layouts and how few runs they need. What the runs move is checked against the
// oracle in each test.
#include "plan/lower.h"

#include <gtest/gtest.h>

#include "oracle.h"
#include "plan/plan.h"
#include "world.h"

namespace wb::test {
namespace {

// One source and a receiver; tests add tensors, buffers and pieces.
class Lower : public ::testing::Test {
 protected:
  Lower() {
    world_.receiver.name = "receiver";
    world_.sources.emplace_back().name = "source";
  }
  OwnedWorker& source() { return world_.sources[0]; }
  OwnedWorker& receiver() { return world_.receiver; }

  void make_table(std::vector<TensorInfo> tensors) {
    world_.table = *TensorTable::make(std::move(tensors));
  }
  // All of a tensor in a buffer of its own at the end of region 0.
  void add_whole(OwnedWorker* worker, uint32_t tensor) {
    const uint32_t buffer = worker->add_buffer(world_.table[tensor].bytes(), 0);
    worker->layout.pieces.push_back(
        dense_box(world_.table, tensor, *Box::whole(world_.table[tensor].unit_shape()), buffer, 0));
  }
  // The runs of the plan, which is checked byte by byte and proved.
  std::vector<wb::Run> runs() {
    for (OwnedWorker* worker : {&source(), &receiver()}) {
      const LayoutRole role = worker == &source() ? LayoutRole::kSource : LayoutRole::kReceiver;
      EXPECT_EQ(check_layout(world_.table, worker->layout, role).message(), "");
    }
    const Result<Plan> plan = world_.plan();
    EXPECT_TRUE(plan.ok()) << plan.status().to_string();
    if (!plan.ok()) return {};
    EXPECT_EQ(fault_of(world_, *plan), "");
    EXPECT_EQ(world_.prove(*plan).message(), "");
    EXPECT_EQ(plan->lists.size(), 1u);
    return plan->lists[0].runs;
  }

  World world_;
};

TEST_F(Lower, ColumnCutIsOneRunOfRows) {
  make_table({TensorInfo{"o_proj", DType::kBF16, {32, 16}}});
  // Source: columns [0, 8) as [32, 8]. Receiver: columns [4, 8) as [32, 4].
  source().add_buffer(32 * 8 * 2, 0);
  receiver().add_buffer(32 * 4 * 2, 0);
  const Box whole = *Box::whole(world_.table[0].unit_shape());
  source().layout.pieces.push_back(
      dense_box(world_.table, 0, whole.with_dim(1, Progression{0, 8, 1}), 0, 0));
  receiver().layout.pieces.push_back(
      dense_box(world_.table, 0, whole.with_dim(1, Progression{4, 4, 1}), 0, 0));
  EXPECT_EQ(runs(), std::vector<wb::Run>({{0, 0, 8, 0, 8, 32, 16, 8}}));
}

TEST_F(Lower, RowsOfTheLongerDimension) {
  // [3, 50, 4] held as [3, 50, 8]-strided columns on one side and with the first two dimensions
  // swapped on the other: 150 rows of 4 bytes, as 3 runs of 50.
  make_table({TensorInfo{"w", DType::kU8, {3, 50, 4}}});
  source().add_buffer(3 * 50 * 8, 0);
  receiver().add_buffer(600, 0);
  Piece from = dense_box(world_.table, 0, *Box::whole(world_.table[0].unit_shape()), 0, 0);
  from.stride = {400, 8, 1};
  Piece to = from;
  to.stride = {4, 12, 1};
  source().layout.pieces.push_back(from);
  receiver().layout.pieces.push_back(to);
  const auto result = runs();
  ASSERT_EQ(result.size(), 3u);
  EXPECT_EQ(result[1], (wb::Run{0, 0, 400, 4, 4, 50, 8, 12}));
}

TEST_F(Lower, PackedTensorsAreOneRun) {
  // Ten replicated tensors, each side packs them in table order in one region.
  std::vector<TensorInfo> tensors;
  for (int t = 0; t < 10; ++t) {
    tensors.push_back(TensorInfo{"norm." + std::to_string(t), DType::kF32, {5 + t}});
  }
  make_table(tensors);
  for (uint32_t t = 0; t < 10; ++t) {
    add_whole(&source(), t);
    add_whole(&receiver(), t);
  }
  EXPECT_EQ(runs(), std::vector<wb::Run>({{0, 0, 0, 0, world_.table.bytes(), 1, 0, 0}}));
}

TEST_F(Lower, RegionsAreNotJoined) {
  make_table({TensorInfo{"a", DType::kU8, {8}}, TensorInfo{"b", DType::kU8, {8}}});
  for (uint32_t t = 0; t < 2; ++t) {
    add_whole(&source(), t);
    receiver().add_buffer(8, t);
    receiver().layout.pieces.push_back(dense_rows(world_.table, t, 0, 8, t, 0));
  }
  EXPECT_EQ(runs(), std::vector<wb::Run>({{0, 0, 0, 0, 8, 1, 0, 0}, {0, 1, 8, 0, 8, 1, 0, 0}}));
}

TEST_F(Lower, InterleavedQkvIsOneRunEach) {
  // Megatron's groups [2 q | k | v] of 4 rows each, 5 groups, into [all q | all k | all v].
  make_table({TensorInfo{"k", DType::kU8, {20, 6}}, TensorInfo{"q", DType::kU8, {40, 6}},
              TensorInfo{"v", DType::kU8, {20, 6}}});
  source().add_buffer(80 * 6, 0);
  receiver().add_buffer(80 * 6, 0);
  constexpr uint32_t kK = 0, kQ = 1, kV = 2;
  for (int64_t g = 0; g < 5; ++g) {
    auto& pieces = source().layout.pieces;
    pieces.push_back(dense_rows(world_.table, kQ, g * 8, g * 8 + 8, 0, g * 96));
    pieces.push_back(dense_rows(world_.table, kK, g * 4, g * 4 + 4, 0, g * 96 + 48));
    pieces.push_back(dense_rows(world_.table, kV, g * 4, g * 4 + 4, 0, g * 96 + 72));
  }
  auto& pieces = receiver().layout.pieces;
  pieces.push_back(dense_rows(world_.table, kQ, 0, 40, 0, 0));
  pieces.push_back(dense_rows(world_.table, kK, 0, 20, 0, 240));
  pieces.push_back(dense_rows(world_.table, kV, 0, 20, 0, 360));
  EXPECT_EQ(runs(), std::vector<wb::Run>({{0, 0, 0, 0, 48, 5, 96, 48},
                                          {0, 0, 48, 240, 24, 5, 96, 24},
                                          {0, 0, 72, 360, 24, 5, 96, 24}}));
}

TEST_F(Lower, NeighbouringColumnsAreOneRun) {
  // Two pieces side by side on both sides: rows of 3 and of 5 bytes are rows of 8 bytes.
  make_table({TensorInfo{"w", DType::kU8, {6, 8}}});
  source().add_buffer(6 * 10, 0);
  receiver().add_buffer(6 * 9, 0);
  const Box whole = *Box::whole(world_.table[0].unit_shape());
  for (OwnedWorker* worker : {&source(), &receiver()}) {
    const int64_t pitch = worker == &source() ? 10 : 9;
    for (const Progression& p : {Progression{0, 3, 1}, Progression{3, 5, 1}}) {
      Piece piece = dense_box(world_.table, 0, whole.with_dim(1, p), 0, p.start);
      piece.stride[0] = pitch;
      worker->layout.pieces.push_back(piece);
    }
  }
  EXPECT_EQ(runs(), std::vector<wb::Run>({{0, 0, 0, 0, 8, 6, 10, 9}}));
}

TEST_F(Lower, EqualLayoutsAreOneRunWhateverTheyAre) {
  // Both sides keep the tensor transposed: still one contiguous block.
  make_table({TensorInfo{"w", DType::kF32, {7, 9}}});
  for (OwnedWorker* worker : {&source(), &receiver()}) {
    worker->add_buffer(7 * 9 * 4, 0);
    Piece piece = dense_rows(world_.table, 0, 0, 7, 0, 0);
    piece.stride = {4, 28};
    worker->layout.pieces.push_back(piece);
  }
  EXPECT_EQ(runs(), std::vector<wb::Run>({{0, 0, 0, 0, 252, 1, 0, 0}}));
}

TEST_F(Lower, TransposedIsElementByElementInLongRuns) {
  make_table({TensorInfo{"w", DType::kBF16, {3, 9}}});
  source().add_buffer(54, 0);
  receiver().add_buffer(54, 0);
  source().layout.pieces.push_back(dense_rows(world_.table, 0, 0, 3, 0, 0));
  Piece piece = dense_rows(world_.table, 0, 0, 3, 0, 0);
  piece.stride = {2, 6};
  receiver().layout.pieces.push_back(piece);
  EXPECT_EQ(runs(),
            std::vector<wb::Run>(
                {{0, 0, 0, 0, 2, 9, 2, 6}, {0, 0, 18, 2, 2, 9, 2, 6}, {0, 0, 36, 4, 2, 9, 2, 6}}));
}

TEST_F(Lower, NegativeAndZeroStrides) {
  // The receiver keeps rows backwards; the source has one stored row that stands for all three.
  make_table({TensorInfo{"w", DType::kU8, {3, 4}}});
  source().add_buffer(4, 0);
  receiver().add_buffer(12, 0);
  Piece from = dense_rows(world_.table, 0, 0, 3, 0, 0);
  from.stride = {0, 1};
  Piece to = dense_rows(world_.table, 0, 0, 3, 0, 8);
  to.stride = {-4, 1};
  source().layout.pieces.push_back(from);
  receiver().layout.pieces.push_back(to);
  EXPECT_EQ(runs(), std::vector<wb::Run>({{0, 0, 0, 0, 4, 3, 0, 4}}));
}

TEST_F(Lower, ScalarsAndSubByteUnits) {
  make_table({TensorInfo{"f4", DType::kF4, {2, 8}}, TensorInfo{"f6", DType::kF6E3M2, {8}},
              TensorInfo{"scale", DType::kF64, {}}});
  for (uint32_t t = 0; t < 3; ++t) {
    source().add_buffer(world_.table[t].bytes() + 1, 0);
    source().layout.pieces.push_back(
        dense_box(world_.table, t, *Box::whole(world_.table[t].unit_shape()), t, 1));
    add_whole(&receiver(), t);
  }
  EXPECT_EQ(runs(),
            std::vector<wb::Run>(
                {{0, 0, 1, 0, 8, 1, 0, 0}, {0, 0, 10, 8, 6, 1, 0, 0}, {0, 0, 17, 14, 8, 1, 0, 0}}));
}

TEST_F(Lower, TwoHomesOfPackedTensorsAreOneRunEach) {
  make_table({TensorInfo{"a", DType::kU8, {8}}, TensorInfo{"b", DType::kU8, {9}}});
  add_whole(&source(), 0);
  add_whole(&source(), 1);
  for (int home = 0; home < 2; ++home) {
    add_whole(&receiver(), 0);
    add_whole(&receiver(), 1);
  }
  EXPECT_EQ(runs(), std::vector<wb::Run>({{0, 0, 0, 0, 17, 1, 0, 0}, {0, 0, 0, 17, 17, 1, 0, 0}}));
}

TEST_F(Lower, TwoRowsAreNotARowStructure) {
  // Blocks of 4 bytes at 0, 9, 20, 31 and 42 of the source, packed in the receiver: the last four
  // are rows, the first is no row of theirs.
  std::vector<TensorInfo> tensors;
  for (int t = 0; t < 5; ++t)
    tensors.push_back(TensorInfo{"w." + std::to_string(t), DType::kF32, {1}});
  make_table(tensors);
  constexpr uint64_t kGaps[] = {0, 5, 7, 7, 7};
  for (uint32_t t = 0; t < 5; ++t) {
    source().add_buffer(4, 0, kGaps[t]);
    source().layout.pieces.push_back(dense_rows(world_.table, t, 0, 1, t, 0));
    add_whole(&receiver(), t);
  }
  EXPECT_EQ(runs(), std::vector<wb::Run>({{0, 0, 0, 0, 4, 1, 0, 0}, {0, 0, 9, 4, 4, 4, 11, 4}}));
}

TEST_F(Lower, TooManyRunsAreRefusedBeforeTheyAreMade) {
  // 2^10 x 2^17 x 2^17 bytes with all dimensions reversed: 2^27 runs of 2^17 rows of one byte.
  make_table({TensorInfo{"w", DType::kU8, {1 << 10, 1 << 17, 1 << 17}}});
  const uint64_t bytes = world_.table[0].bytes();
  source().add_buffer(bytes, 0);
  receiver().add_buffer(bytes, 0);
  source().layout.pieces.push_back(dense_rows(world_.table, 0, 0, 1 << 10, 0, 0));
  Piece piece = dense_rows(world_.table, 0, 0, 1 << 10, 0, 0);
  piece.stride = {1, 1 << 10, 1 << 27};
  receiver().layout.pieces.push_back(piece);
  const Status status = world_.plan().status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_EQ(status.facts().tensor, "w");
  EXPECT_EQ(status.facts().peer, "source");
}

}  // namespace
}  // namespace wb::test
