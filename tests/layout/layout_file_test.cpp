#include "layout/layout_file.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <tuple>

#include "layout/layout_diff.h"

namespace wb {
namespace {

Piece piece(uint32_t tensor, uint32_t buffer, std::vector<Progression> dims, int64_t offset,
            std::vector<int64_t> stride) {
  Piece made;
  made.tensor = tensor;
  made.buffer = buffer;
  made.box = *Box::make(dims);
  made.offset = offset;
  std::copy(stride.begin(), stride.end(), made.stride.begin());
  return made;
}

LayoutFile example() {
  LayoutFile file;
  file.table = *TensorTable::make({{"a", DType::kBF16, {4, 6}}, {"b", DType::kF32, {}}});
  file.layout.buffers = {{"x", DType::kBF16, {6, 4}, 48}, {"y", DType::kF32, {1}, 8}};
  file.layout.pieces = {piece(0, 0, {{0, 4, 1}, {0, 6, 1}}, 40, {2, -8}), piece(1, 1, {}, 0, {})};
  file.layout.extras = {{1, 4, 4, ExtraKind::kZeroFill, "pad \"\n"}};
  return file;
}

TEST(LayoutFile, ComesBackAsItWas) {
  const LayoutFile file = example();
  const std::string path = testing::TempDir() + "layout_file_test.json";
  ASSERT_TRUE(save_layout(path, file.table, file.layout).ok());
  const auto loaded = load_layout(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(layout_digest(loaded->table, loaded->layout), layout_digest(file.table, file.layout));
  EXPECT_EQ(loaded->layout.pieces, file.layout.pieces);
  ::remove(path.c_str());
  EXPECT_EQ(load_layout(path).status().code(), Code::kNotFound);
  EXPECT_EQ(save_layout(testing::TempDir(), file.table, file.layout).code(),
            Code::kInvalidArgument);
}

// Whatever single byte is changed, removed or cut at: an error or the same layout, never another.
TEST(LayoutFile, RefusesWhatWasChanged) {
  const LayoutFile file = example();
  const std::string text = layout_text(file.table, file.layout);
  const Digest digest = layout_digest(file.table, file.layout);
  const auto expect_safe = [&](const std::string& changed) {
    const auto parsed = parse_layout(changed);
    if (parsed.ok()) {
      EXPECT_EQ(layout_digest(parsed->table, parsed->layout), digest) << changed;
    } else {
      EXPECT_EQ(parsed.status().code(), Code::kBadData) << parsed.status().to_string();
    }
  };
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'0', '9', '-', '"', ',', '[', ']', '}', 'x', '\0'}) {
      std::string changed = text;
      changed[i] = c;
      expect_safe(changed);
    }
    expect_safe(text.substr(0, i));
    expect_safe(text.substr(0, i) + text.substr(i + 1));
  }
  expect_safe(std::string(100000, '['));
  for (const char* other : {"{}", "[]", "3", R"({"weightbridge_layout":2})",
                            R"({"weightbridge_layout":1,"tensors":{}})"}) {
    EXPECT_EQ(parse_layout(other).status().code(), Code::kBadData) << other;
  }
}

using Binding = std::tuple<std::string, int64_t, uint32_t, int64_t>;  // buffer, byte, tensor, index

void add_bindings(const TensorTable& table, const std::string& buffer, const Piece& piece,
                  std::map<Binding, int>* all) {
  std::vector<int64_t> index(static_cast<size_t>(piece.box.rank()), 0);
  for (;;) {
    int64_t at = 0, byte = piece.offset;
    for (size_t d = 0; d < index.size(); ++d) {
      const Progression& p = piece.box.dim(static_cast<int>(d));
      at = at * table[piece.tensor].shape[d] + p.start + index[d] * p.step;
      byte += index[d] * piece.stride[d];
    }
    ++(*all)[{buffer, byte, piece.tensor, at}];
    size_t d = index.size();
    while (d > 0 && ++index[d - 1] == piece.box.dim(static_cast<int>(d - 1)).count) index[--d] = 0;
    if (d == 0) return;
  }
}

// Against a comparison element by element.
RC_GTEST_PROP(LayoutDiff, NamesEveryElementThatDiffersAndNoOther, ()) {
  const TensorTable table =
      *TensorTable::make({{"s", DType::kU8, {5, 6}}, {"t", DType::kU8, {5, 6}}});
  const auto any = [](int64_t low, int64_t high) {
    return *rc::gen::inRange<int64_t>(low, high + 1);
  };
  const auto random_piece = [&] {
    const int64_t r = any(0, 4), c = any(0, 5), step = any(1, 2);
    const int64_t rows = any(1, 5 - r), columns = any(1, (5 - c) / step + 1);
    const bool turned = any(0, 1) == 1;
    return piece(static_cast<uint32_t>(any(0, 1)), static_cast<uint32_t>(any(0, 1)),
                 {{r, rows, 1}, {c, columns, columns == 1 ? 1 : step}}, any(0, 3) + r * 6 + c,
                 turned ? std::vector<int64_t>{any(1, 7), 5} : std::vector<int64_t>{6, step});
  };
  WorkerLayout a, b;
  a.buffers = {{"x", DType::kU8, {100}, 100}, {"y", DType::kU8, {100}, 100}};
  b.buffers = a.buffers;
  for (int64_t i = any(0, 4); i > 0; --i) a.pieces.push_back(random_piece());
  for (int64_t i = any(0, 4); i > 0; --i) {
    b.pieces.push_back(!a.pieces.empty() && any(0, 1) == 0
                           ? a.pieces[static_cast<size_t>(any(0, 99)) % a.pieces.size()]
                           : random_piece());
  }
  RC_PRE(check_layout(table, a, LayoutRole::kSource).ok());
  RC_PRE(check_layout(table, b, LayoutRole::kSource).ok());
  std::map<Binding, int> in_a, in_b, only_a, only_b;
  for (const Piece& p : a.pieces) add_bindings(table, a.buffers[p.buffer].name, p, &in_a);
  for (const Piece& p : b.pieces) add_bindings(table, b.buffers[p.buffer].name, p, &in_b);
  const auto differences = diff_layouts(table, a, b);
  RC_ASSERT(differences.ok());
  for (const LayoutDifference& one : *differences) {
    auto& only = one.kind == LayoutDifference::Kind::kOnlyA ? only_a : only_b;
    add_bindings(table, one.buffer, one.piece, &only);
  }
  for (const auto& [binding, times] : in_a) {
    RC_ASSERT((in_b.count(binding) == 0) == (only_a.count(binding) != 0));
  }
  for (const auto& [binding, times] : in_b) {
    RC_ASSERT((in_a.count(binding) == 0) == (only_b.count(binding) != 0));
  }
  for (const auto& [binding, times] : only_a) RC_ASSERT(in_a.count(binding) != 0);
  for (const auto& [binding, times] : only_b) RC_ASSERT(in_b.count(binding) != 0);
}

TEST(LayoutDiff, BuffersOfOtherNamesAndShapes) {
  const LayoutFile file = example();
  WorkerLayout other = file.layout;
  other.buffers[0].shape = {4, 6};
  other.buffers[1].name = "z";
  const auto differences = diff_layouts(file.table, file.layout, other);
  ASSERT_TRUE(differences.ok());
  ASSERT_EQ(differences->size(), 5u);  // x, y, z; b in y only in A, in z only in B
  EXPECT_EQ((*differences)[0].text,
            "buffer 'x': A: BF16 [6, 4], 48 bytes, B: BF16 [4, 6], 48 bytes");
  EXPECT_EQ((*differences)[1].text, "buffer 'y': only A has it");
  EXPECT_EQ((*differences)[3].text, "buffer 'y': only A: b at byte 0");
}

}  // namespace
}  // namespace wb
