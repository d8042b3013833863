// Dtypes and the tensor table.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "layout/tensor_table.h"

namespace wb {
namespace {

TEST(DType, EveryNameFindsItsType) {
  std::set<std::string_view> names;
  for (int value = 0; value < 256; ++value) {
    const DTypeInfo* type = find_dtype(static_cast<DType>(value));
    if (type == nullptr) continue;
    EXPECT_EQ(static_cast<int>(type->dtype), value);
    EXPECT_EQ(find_dtype(type->name), type);
    EXPECT_EQ(&dtype_info(type->dtype), type);
    EXPECT_EQ(type->bits * type->unit_elements, type->unit_bytes * 8);
    names.insert(type->name);
  }
  const std::set<std::string_view> expected = {
      "BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
      "I16",  "U16", "F16", "BF16",    "I32",     "U32",     "F32",         "I64",
      "U64",  "F64", "C64", "F4",      "F6_E2M3", "F6_E3M2"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(find_dtype("bf16"), nullptr);
  EXPECT_EQ(find_dtype(""), nullptr);
}

Code code_of(TensorInfo tensor) { return TensorTable::make({std::move(tensor)}).status().code(); }

TEST(TensorTable, SortsAndFinds) {
  const auto table = TensorTable::make(
      {{"b", DType::kBF16, {2, 3}}, {"a", DType::kF32, {}}, {"a.b", DType::kF4, {4, 6}}});
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  EXPECT_EQ((*table)[0].name, "a");
  EXPECT_EQ((*table)[1].name, "a.b");
  EXPECT_EQ(*table->find("b"), 2u);
  EXPECT_EQ(table->find("c").status().code(), Code::kNotFound);
  EXPECT_EQ(table->find("c").status().facts().tensor, "c");
  EXPECT_EQ(table->bytes(), 4u + 12u + 12u);
  EXPECT_EQ((*table)[1].unit_shape(), (std::vector<int64_t>{4, 3}));
}

TEST(TensorTable, EmptyTensorsHaveNoBytes) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const auto table =
      TensorTable::make({{"a", DType::kF64, {0, kHuge, kHuge}}, {"b", DType::kU8, {kHuge, 0}}});
  ASSERT_TRUE(table.ok()) << table.status().to_string();
  EXPECT_EQ(table->bytes(), 0u);
  EXPECT_EQ((*table)[0].bytes(), 0u);
}

TEST(TensorTable, RefusesWhatIsNotATensor) {
  EXPECT_EQ(code_of({"", DType::kU8, {1}}), Code::kInvalidArgument);
  for (const char* name : {"\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_EQ(code_of({name, DType::kU8, {1}}), Code::kInvalidArgument) << name;
  }
  for (const char* name : {"\xc3\xa9", "\xe2\x82\xac", "\xf4\x8f\xbf\xbf", "a b"}) {
    EXPECT_EQ(code_of({name, DType::kU8, {1}}), Code::kOk) << name;
  }
  EXPECT_EQ(code_of({"a", static_cast<DType>(0), {1}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({"a", static_cast<DType>(23), {1}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({"a", DType::kU8, {-1}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({"a", DType::kU8, std::vector<int64_t>(kMaxRank + 1, 1)}),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of({"a", DType::kU8, {int64_t{1} << 62}}), Code::kOk);
  EXPECT_EQ(code_of({"a", DType::kU8, {(int64_t{1} << 62) + 1}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({"a", DType::kU8, {int64_t{1} << 32, int64_t{1} << 32}}),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of({"a", DType::kF4, {3}}), Code::kUnsupported);
  EXPECT_EQ(code_of({"a", DType::kF4, {}}), Code::kUnsupported);
  EXPECT_EQ(code_of({"a", DType::kF6E2M3, {4, 6}}), Code::kUnsupported);
  EXPECT_EQ(code_of({"a", DType::kF6E2M3, {3, 8}}), Code::kOk);
  const auto twice = TensorTable::make({{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}});
  EXPECT_EQ(twice.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(twice.status().facts().tensor, "a");
  std::vector<TensorInfo> large;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    large.push_back({name, DType::kU8, {int64_t{1} << 62}});
  }
  EXPECT_EQ(TensorTable::make(large).status().code(), Code::kInvalidArgument) << "together";
}

TEST(TensorTable, DigestNamesTheWholeTable) {
  const auto digest = [](std::vector<TensorInfo> tensors) {
    return TensorTable::make(std::move(tensors))->digest();
  };
  const std::vector<TensorInfo> base = {{"a", DType::kF32, {2, 3}}, {"b", DType::kF32, {6}}};
  EXPECT_EQ(digest(base), digest({base[1], base[0]})) << "the order given does not matter";
  std::set<Digest> all = {digest(base)};
  all.insert(digest({{"a", DType::kF32, {3, 2}}, base[1]}));
  all.insert(digest({{"a", DType::kI32, {2, 3}}, base[1]}));
  all.insert(digest({{"ab", DType::kF32, {2, 3}}, base[1]}));
  all.insert(digest({{"a", DType::kF32, {2, 3, 1}}, base[1]}));
  all.insert(digest({base[0]}));
  all.insert(digest({}));
  EXPECT_EQ(all.size(), 7u);
}

}  // namespace
}  // namespace wb
