// Every misuse of the C ABI gets a typed error and a sentence, and nothing crashes (run under
// ASan).
#include <gtest/gtest.h>
#include <weightbridge/weightbridge.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kTimeout = 20000;

// What a call said, with the thread's sentence, for readable failures.
::testing::AssertionResult gives(wb_code want, wb_code got) {
  if (want == got && (want == WB_OK || *wb_last_error()->sentence != '\0')) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << wb_code_name(got) << ": " << wb_last_error()->sentence
                                       << "; wanted " << wb_code_name(want);
}

constexpr std::array<int64_t, 2> kShape = {4, 6};

wb_table* make_table() {
  const wb_tensor tensor{"w", WB_F32, 2, kShape.data()};
  wb_table* table = nullptr;
  EXPECT_TRUE(gives(WB_OK, wb_table_create(&tensor, 1, &table)));
  return table;
}

wb_job_options job_options() {
  wb_job_options options{};
  options.struct_size = sizeof options;
  options.store = "embed:127.0.0.1:0";
  options.token = "secret";
  options.transports = "local";
  return options;
}

class Misuse : public ::testing::Test {
 protected:
  void SetUp() override {
    const wb_job_options options = job_options();
    ASSERT_TRUE(gives(WB_OK, wb_job_open(&options, kTimeout, &job)));
    table = make_table();
    ASSERT_TRUE(gives(WB_OK, wb_layout_create(table, &layout)));
    ASSERT_TRUE(
        gives(WB_OK, wb_layout_add_tensor(layout, "w", weights.data(), sizeof weights, nullptr)));
  }
  void TearDown() override {
    EXPECT_TRUE(gives(WB_OK, wb_layout_free(layout)));
    EXPECT_TRUE(gives(WB_OK, wb_table_free(table)));
    EXPECT_TRUE(gives(WB_OK, wb_job_close(job, kTimeout)));
  }

  wb_code create_receiver(const wb_receiver_options& options, wb_receiver** out) const {
    return wb_receiver_create(job, layout, &options, kTimeout, out);
  }

  std::array<float, 24> weights{};
  wb_job* job = nullptr;
  wb_table* table = nullptr;
  wb_layout* layout = nullptr;
};

TEST(MisuseHandle, NullOfEveryTypeIsRefused) {
  wb_job* job = nullptr;
  wb_table* table = nullptr;
  wb_layout* layout = nullptr;
  wb_publisher* publisher = nullptr;
  wb_receiver* receiver = nullptr;
  size_t count = 0;
  wb_tensor tensor{};
  wb_buffer buffer{};
  buffer.struct_size = sizeof buffer;
  buffer.name = "b";
  buffer.dtype = WB_F32;
  wb_piece piece{};
  piece.struct_size = sizeof piece;
  piece.tensor = "w";
  wb_publisher_stats_t stats{};
  stats.struct_size = sizeof stats;
  wb_receiver_options options{};
  options.struct_size = sizeof options;
  options.name = "r";
  const std::vector<wb_code> codes = {
      wb_job_close(job, 1),
      wb_table_count(table, &count),
      wb_table_tensor(table, 0, &tensor),
      wb_table_free(table),
      wb_layout_create(table, &layout),
      wb_layout_from_rules(table, "/", "vllm:tp=1", 0, &layout),
      wb_layout_add_buffer(layout, &buffer, nullptr),
      wb_layout_add_piece(layout, &piece),
      wb_layout_add_tensor(layout, "w", nullptr, 0, nullptr),
      wb_layout_add_extra(layout, 0, 0, 1, WB_ZERO_FILL, "pad"),
      wb_layout_bind(layout, 0, &count, 1),
      wb_layout_allocate(layout, nullptr),
      wb_layout_count(layout, &count),
      wb_layout_buffer(layout, 0, &buffer),
      wb_layout_check(layout, WB_SOURCE),
      wb_layout_free(layout),
      wb_publisher_create(job, layout, nullptr, 1, &publisher),
      wb_publisher_begin_update(publisher, nullptr),
      wb_publisher_publish(publisher, 1, nullptr),
      wb_publisher_rejoin(publisher, 1),
      wb_publisher_stats(publisher, &stats),
      wb_publisher_close(publisher, 1),
      wb_receiver_create(job, layout, &options, 1, &receiver),
      wb_receiver_pull(receiver, WB_LATEST, 0, 1, nullptr),
      wb_receiver_install(receiver, nullptr),
      wb_receiver_close(receiver, 1),
  };
  for (size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(codes[i], WB_INVALID_ARGUMENT) << "call " << i;
  }
  EXPECT_EQ(wb_job_store_url(job), nullptr);
  EXPECT_EQ(wb_publisher_report(publisher), nullptr);
  EXPECT_EQ(wb_receiver_report(receiver), nullptr);
  EXPECT_STREQ(wb_last_error()->sentence, "the receiver handle is NULL");
}

TEST(MisuseHandle, NullOutputsAreRefused) {
  const wb_job_options options = job_options();
  const wb_tensor tensor{"w", WB_F32, 2, kShape.data()};
  wb_table* const table = make_table();
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_job_open(&options, kTimeout, nullptr)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_create(&tensor, 1, nullptr)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_open("x", nullptr)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_count(table, nullptr)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_tensor(table, 0, nullptr)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_create(table, nullptr)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_memory_alloc(nullptr, 1, nullptr)));
  EXPECT_TRUE(gives(WB_OK, wb_table_free(table)));
}

TEST(MisuseHandle, ClosedForeignAndWildHandlesAreToldApart) {
  wb_table* const first = make_table();
  ASSERT_TRUE(gives(WB_OK, wb_table_free(first)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_free(first)));
  EXPECT_STREQ(wb_last_error()->sentence, "the table handle was closed");

  // The slot is used again; the old handle must not reach the new object.
  wb_table* const second = make_table();
  size_t count = 0;
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_count(first, &count)));
  EXPECT_TRUE(gives(WB_OK, wb_table_count(second, &count)));
  EXPECT_NE(first, second);

  auto* const foreign = reinterpret_cast<wb_layout*>(second);
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_free(foreign)));
  EXPECT_STREQ(wb_last_error()->sentence, "the layout handle is of another type");

  int local = 0;
  for (const uint64_t wild : {reinterpret_cast<uint64_t>(&local), uint64_t{1}, ~uint64_t{0},
                              uint64_t{2} << 56 | 0xffffff, uint64_t{2} << 56 | 1u << 24 | 99999}) {
    EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_free(reinterpret_cast<wb_table*>(wild))));
  }
  EXPECT_TRUE(gives(WB_OK, wb_table_free(second)));
}

TEST(MisuseHandle, OneOfManyThreadsCloses) {
  for (int round = 0; round < 50; ++round) {
    wb_table* const table = make_table();
    std::atomic<int> closed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        size_t count = 0;
        (void)wb_table_count(table, &count);
        if (wb_table_free(table) == WB_OK) ++closed;
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(closed, 1);
  }
}

TEST(MisuseStruct, SizesThatNoStructHasAreRefused) {
  wb_job* job = nullptr;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4}, sizeof(wb_job_options) - 4,
                            size_t{4104}, size_t{0xdeadbeef}, SIZE_MAX}) {
    wb_job_options options = job_options();
    options.struct_size = size;
    EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_job_open(&options, kTimeout, &job))) << size;
    EXPECT_EQ(job, nullptr);
  }
}

TEST(MisuseStruct, ANewerProgramIsServedUnlessItAsksForMore) {
  struct Newer {
    wb_memory_options known;
    uint64_t more[3];
  } newer{{sizeof(Newer), WB_MEMORY_HOST, 0, nullptr}, {0, 0, 0}};
  void* data = nullptr;
  ASSERT_TRUE(gives(WB_OK, wb_memory_alloc(&newer.known, 64, &data)));
  EXPECT_TRUE(gives(WB_OK, wb_memory_free(data)));
  newer.more[1] = 1;
  EXPECT_TRUE(gives(WB_UNSUPPORTED, wb_memory_alloc(&newer.known, 64, &data)));
  EXPECT_EQ(data, nullptr);
}

TEST(MisuseStruct, AnOlderProgramGetsTheDefaultsAndOnlyItsBytes) {
  // Only struct_size and the first fields exist for it; what follows must not be read.
  wb_memory_options older{sizeof(size_t), 77, 77, reinterpret_cast<const char*>(8)};
  void* data = nullptr;
  ASSERT_TRUE(gives(WB_OK, wb_memory_alloc(&older, 64, &data)));
  EXPECT_TRUE(gives(WB_OK, wb_memory_free(data)));

  wb_table* const table = make_table();
  wb_layout* layout = nullptr;
  ASSERT_TRUE(gives(WB_OK, wb_layout_create(table, &layout)));
  ASSERT_TRUE(gives(WB_OK, wb_layout_add_tensor(layout, "w", nullptr, 0, nullptr)));
  wb_buffer buffer;
  std::memset(&buffer, 0x5a, sizeof buffer);
  buffer.struct_size = offsetof(wb_buffer, dtype);
  ASSERT_TRUE(gives(WB_OK, wb_layout_buffer(layout, 0, &buffer)));
  EXPECT_STREQ(buffer.name, "w");
  EXPECT_EQ(buffer.dtype, 0x5a5a5a5a) << "written beyond the caller's struct";
  EXPECT_TRUE(gives(WB_OK, wb_layout_free(layout)));
  EXPECT_TRUE(gives(WB_OK, wb_table_free(table)));
}

TEST(MisuseJob, OptionsAreChecked) {
  wb_job* job = nullptr;
  const auto open = [&](auto change, int64_t timeout = kTimeout) {
    wb_job_options options = job_options();
    change(options);
    const wb_code code = wb_job_open(&options, timeout, &job);
    EXPECT_EQ(job, nullptr);
    return code;
  };
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_job_open(nullptr, kTimeout, &job)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, open([](auto& o) { o.store = nullptr; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, open([](auto& o) { o.store = "what"; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, open([](auto& o) { o.token = nullptr; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, open([](auto& o) { o.token = ""; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, open([](auto& o) { o.token_file = "both"; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, open([](auto& o) { o.transports = "pigeon"; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, open([](auto& o) { o.transports = "local,,ucx"; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, open([](auto& o) { o.transports = "fake"; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, open([](auto& o) { o.name = "a/b"; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, open([](auto& o) {
                      o.log_level = 9;
                      o.log = [](void*, int32_t, const char*, const char*, const wb_log_field*,
                                 size_t) {};
                    })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, open([](auto&) {}, -1)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, open([](auto&) {}, INT64_MAX)));
  EXPECT_TRUE(gives(WB_NOT_FOUND, open([](auto& o) {
                      o.token = nullptr;
                      o.token_file = "/nonexistent/token";
                    })));
}

TEST_F(Misuse, WrongTokenIsUnauthenticated) {
  wb_job_options options = job_options();
  options.store = wb_job_store_url(job);
  options.token = "guess";
  wb_job* other = nullptr;
  EXPECT_TRUE(gives(WB_UNAUTHENTICATED, wb_job_open(&options, kTimeout, &other)));
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(wb_last_error()->retryable, 0);
}

TEST_F(Misuse, PortInUseIsBusy) {
  const std::string url = wb_job_store_url(job);
  const std::string taken = "embed:127.0.0.1:" + url.substr(url.rfind(':') + 1);
  wb_job_options options = job_options();
  options.store = taken.c_str();
  wb_job* other = nullptr;
  EXPECT_TRUE(gives(WB_BUSY, wb_job_open(&options, kTimeout, &other)));
}

TEST(MisuseTable, TensorsAreChecked) {
  wb_table* table = nullptr;
  const auto create = [&](const wb_tensor& tensor) {
    const wb_code code = wb_table_create(&tensor, 1, &table);
    EXPECT_EQ(table, nullptr);
    return code;
  };
  const std::array<int64_t, 2> negative = {4, -1};
  const std::array<int64_t, 2> huge = {INT64_MAX, INT64_MAX};
  const std::array<int64_t, 9> many = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  const std::array<int64_t, 1> odd = {3};
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_create(nullptr, 1, &table)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create({nullptr, WB_F32, 2, kShape.data()})));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create({"", WB_F32, 2, kShape.data()})));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create({"\xff", WB_F32, 2, kShape.data()})));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create({"w", 0, 2, kShape.data()})));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create({"w", WB_F8_E5M2_FNUZ + 1, 2, kShape.data()})));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create({"w", WB_F32 + 256, 2, kShape.data()})));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create({"w", -1, 2, kShape.data()})));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create({"w", WB_F32, 2, nullptr})));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create({"w", WB_F32, 2, negative.data()})));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create({"w", WB_F32, 2, huge.data()})));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create({"w", WB_F32, 9, many.data()})));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create({"w", WB_F32, UINT32_MAX, many.data()})));
  EXPECT_TRUE(gives(WB_UNSUPPORTED, create({"w", WB_F4, 1, odd.data()})));
  const std::array<wb_tensor, 2> twice = {
      {{"w", WB_F32, 2, kShape.data()}, {"w", WB_U8, 0, nullptr}}};
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_create(twice.data(), 2, &table)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_open(nullptr, &table)));
  EXPECT_TRUE(gives(WB_NOT_FOUND, wb_table_open("/nonexistent/model.safetensors", &table)));
}

TEST(MisuseTable, TheHeaderNamesEveryTypeThatTheLibraryKnows) {
  for (wb_dtype dtype = -1; dtype < 300; ++dtype) {
    const std::array<int64_t, 2> shape = {4, 8};
    const wb_tensor tensor{"w", dtype, 2, shape.data()};
    wb_table* table = nullptr;
    const bool named = dtype >= WB_BOOL && dtype <= WB_F8_E5M2_FNUZ;
    EXPECT_EQ(wb_table_create(&tensor, 1, &table) == WB_OK, named) << dtype;
    if (table != nullptr) {
      EXPECT_TRUE(gives(WB_OK, wb_table_free(table)));
    }
  }
}

TEST_F(Misuse, IndicesOutsideAreRefused) {
  wb_tensor tensor{};
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_tensor(table, 1, &tensor)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_tensor(table, SIZE_MAX, &tensor)));
  wb_buffer buffer{};
  buffer.struct_size = sizeof buffer;
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_buffer(layout, 1, &buffer)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_bind(layout, 7, weights.data(), 96)));
  EXPECT_TRUE(
      gives(WB_INVALID_ARGUMENT, wb_layout_add_extra(layout, 7, 0, 1, WB_ZERO_FILL, "pad")));
}

TEST_F(Misuse, BuffersAreChecked) {
  const auto add = [&](auto change) {
    wb_buffer buffer{sizeof(wb_buffer), "b", WB_F32, 2, kShape.data(), nullptr, 0};
    change(buffer);
    return wb_layout_add_buffer(layout, &buffer, nullptr);
  };
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_add_buffer(layout, nullptr, nullptr)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([](auto& b) { b.name = nullptr; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([](auto& b) { b.name = ""; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([](auto& b) { b.name = "w"; }))) << "twice there";
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([](auto& b) { b.dtype = 99; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([](auto& b) { b.bytes = 95; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([](auto& b) { b.shape = nullptr; })));
  EXPECT_TRUE(gives(WB_OK, add([](auto&) {})));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_bind(layout, 1, nullptr, 96)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_bind(layout, 1, weights.data(), 95)));
  EXPECT_TRUE(gives(WB_FAILED_PRECONDITION, wb_layout_bind(layout, 0, weights.data(), 96)));
  EXPECT_TRUE(gives(WB_NOT_FOUND, wb_layout_add_tensor(layout, "x", nullptr, 0, nullptr)));
  EXPECT_STREQ(wb_last_error()->tensor, "x");

  wb_publisher* publisher = nullptr;
  EXPECT_TRUE(gives(WB_FAILED_PRECONDITION,
                    wb_publisher_create(job, layout, nullptr, kTimeout, &publisher)))
      << "a buffer without memory";
}

TEST_F(Misuse, PiecesAreChecked) {
  const std::array<int64_t, 2> start = {0, 0}, one = {1, 1}, zero = {0, 1}, past = {5, 6};
  const std::array<int64_t, 2> huge = {INT64_MAX, INT64_MAX};
  const auto add = [&](auto change) {
    wb_piece piece{};
    piece.struct_size = sizeof piece;
    piece.tensor = "w";
    piece.rank = 2;
    piece.start = start.data();
    piece.count = one.data();
    change(piece);
    return wb_layout_add_piece(layout, &piece);
  };
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_add_piece(layout, nullptr)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([](auto& p) { p.tensor = nullptr; })));
  EXPECT_TRUE(gives(WB_NOT_FOUND, add([](auto& p) { p.tensor = "x"; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([](auto& p) { p.buffer = 1; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([](auto& p) { p.rank = 3; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([](auto& p) { p.count = nullptr; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([](auto& p) { p.start = nullptr; })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([&](auto& p) { p.count = zero.data(); })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([&](auto& p) {
                      p.start = past.data();
                      p.count = huge.data();
                    })));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, add([&](auto& p) {
                      p.count = past.data();
                      p.step = zero.data();
                    })));
  // What only the whole layout shows is found by the check, and by create().
  EXPECT_TRUE(gives(WB_OK, wb_layout_check(layout, WB_RECEIVER)));
  EXPECT_TRUE(gives(WB_OK, add([](auto&) {})));
  EXPECT_TRUE(gives(WB_OK, wb_layout_check(layout, WB_SOURCE)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_check(layout, WB_RECEIVER)))
      << "element (0, 0) is written twice";
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_check(layout, 3)));
  wb_receiver_options options{};
  options.struct_size = sizeof options;
  options.name = "rollout-0";
  wb_receiver* receiver = nullptr;
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create_receiver(options, &receiver)));
  EXPECT_EQ(receiver, nullptr);
}

TEST(MisuseLayout, SubByteRangesOffAByteAreUnsupported) {
  const std::array<int64_t, 1> shape = {8}, start = {1}, count = {2}, zero = {0}, three = {3};
  const wb_tensor tensor{"q", WB_F4, 1, shape.data()};
  wb_table* table = nullptr;
  wb_layout* layout = nullptr;
  ASSERT_TRUE(gives(WB_OK, wb_table_create(&tensor, 1, &table)));
  ASSERT_TRUE(gives(WB_OK, wb_layout_create(table, &layout)));
  const wb_buffer buffer{sizeof(wb_buffer), "q", WB_F4, 1, shape.data(), nullptr, 0};
  ASSERT_TRUE(gives(WB_OK, wb_layout_add_buffer(layout, &buffer, nullptr)));
  const auto add = [&](const int64_t* from, const int64_t* many) {
    wb_piece piece{};
    piece.struct_size = sizeof piece;
    piece.tensor = "q";
    piece.rank = 1;
    piece.start = from;
    piece.count = many;
    return wb_layout_add_piece(layout, &piece);
  };
  EXPECT_TRUE(gives(WB_UNSUPPORTED, add(start.data(), count.data())));
  EXPECT_TRUE(gives(WB_UNSUPPORTED, add(zero.data(), three.data())));
  EXPECT_TRUE(gives(WB_OK, add(zero.data(), count.data())));
  EXPECT_TRUE(gives(WB_OK, wb_layout_free(layout)));
  EXPECT_TRUE(gives(WB_OK, wb_table_free(table)));
}

TEST_F(Misuse, ExtrasAreChecked) {
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_add_extra(layout, 0, 0, 97, WB_UNMAPPED, "x")));
  EXPECT_TRUE(
      gives(WB_INVALID_ARGUMENT, wb_layout_add_extra(layout, 0, UINT64_MAX, 2, WB_UNMAPPED, "x")));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_add_extra(layout, 0, 0, 1, 0, "x")));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_add_extra(layout, 0, 0, 1, 4, "x")));
  EXPECT_TRUE(
      gives(WB_INVALID_ARGUMENT, wb_layout_add_extra(layout, 0, 0, 1, WB_UNMAPPED, nullptr)));
}

TEST_F(Misuse, RulesAreChecked) {
  wb_layout* made = nullptr;
  const auto from = [&](const char* folder, const char* spec) {
    return wb_layout_from_rules(table, folder, spec, 0, &made);
  };
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, from(nullptr, "vllm:tp=1")));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, from("/nonexistent", nullptr)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, from("/nonexistent", "vllm:tp=zero")));
  EXPECT_TRUE(gives(WB_NOT_FOUND, from("/nonexistent", "vllm:tp=1")));
  EXPECT_EQ(made, nullptr);
}

TEST(MisuseMemory, RangesAreChecked) {
  void* data = nullptr;
  wb_memory_options options{sizeof(wb_memory_options), 3, 0, nullptr};
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_memory_alloc(nullptr, 0, &data)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_memory_alloc(&options, 64, &data)));
  EXPECT_TRUE(gives(WB_NO_MEMORY, wb_memory_alloc(nullptr, UINT64_MAX / 4, &data)));
  EXPECT_EQ(data, nullptr);
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_memory_adopt(nullptr, 64)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_memory_adopt(&data, 0)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_memory_adopt(&data, UINT64_MAX)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_memory_free(nullptr)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_memory_free(&data)));

  ASSERT_TRUE(gives(WB_OK, wb_memory_alloc(nullptr, 8192, &data)));
  auto* const bytes = static_cast<char*>(data);
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_memory_free(bytes + 1)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_memory_adopt(bytes + 4096, 4096))) << "known already";
  EXPECT_TRUE(gives(WB_OK, wb_memory_free(data)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_memory_free(data)));
}

TEST_F(Misuse, ABufferPartlyInsideKnownMemoryIsRefused) {
  std::vector<float> pool(100);
  ASSERT_TRUE(gives(WB_OK, wb_memory_adopt(pool.data(), 96)));
  wb_buffer buffer{sizeof(wb_buffer), "b", WB_F32, 2, kShape.data(), &pool[1], 0};
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_layout_add_buffer(layout, &buffer, nullptr)));
  buffer.data = pool.data();
  EXPECT_TRUE(gives(WB_OK, wb_layout_add_buffer(layout, &buffer, nullptr)));
  EXPECT_TRUE(gives(WB_OK, wb_memory_free(pool.data())));
}

TEST_F(Misuse, PublisherOptionsAndOrderAreChecked) {
  wb_publisher* publisher = nullptr;
  const auto create = [&](uint32_t rank, uint32_t world, wb_publish_mode mode, uint32_t slots) {
    const wb_publisher_options options{
        sizeof(wb_publisher_options), rank, world, mode, slots, 0, 0};
    return wb_publisher_create(job, layout, &options, kTimeout, &publisher);
  };
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create(1, 1, 0, 0)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create(1, 0, 0, 0)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create(0, 1, 3, 0)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create(0, 1, -1, 0)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create(0, 1, WB_SNAPSHOT, 1)));
  EXPECT_EQ(publisher, nullptr);

  ASSERT_TRUE(gives(WB_OK, create(0, 1, 0, 0)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_publisher_stats(publisher, nullptr)));
  EXPECT_TRUE(gives(WB_OK, wb_publisher_publish(publisher, 5, nullptr)));
  EXPECT_TRUE(gives(WB_FAILED_PRECONDITION, wb_publisher_publish(publisher, 6, nullptr)))
      << "in-place without begin_update";
  EXPECT_TRUE(gives(WB_OK, wb_publisher_begin_update(publisher, nullptr)));
  EXPECT_TRUE(gives(WB_FAILED_PRECONDITION, wb_publisher_publish(publisher, 5, nullptr)))
      << "a number that does not grow";
  EXPECT_TRUE(gives(WB_FAILED_PRECONDITION, wb_job_close(job, kTimeout))) << "it has a publisher";
  int stream = 0;
  EXPECT_TRUE(gives(WB_UNSUPPORTED, wb_publisher_publish(publisher, 7, &stream)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_publisher_close(publisher, -5)));
  EXPECT_TRUE(gives(WB_OK, wb_publisher_close(publisher, kTimeout)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_publisher_close(publisher, kTimeout)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_publisher_publish(publisher, 8, nullptr)));
}

TEST_F(Misuse, ReceiverOptionsAndOrderAreChecked) {
  wb_receiver* receiver = nullptr;
  wb_receiver_options options{};
  options.struct_size = sizeof options;
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, create_receiver(options, &receiver)));
  EXPECT_TRUE(
      gives(WB_INVALID_ARGUMENT, wb_receiver_create(job, layout, nullptr, kTimeout, &receiver)));
  options.name = "rollout-0";
  ASSERT_TRUE(gives(WB_OK, create_receiver(options, &receiver)));

  const wb_pull_report* report = nullptr;
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_receiver_pull(receiver, 0, 0, 100, &report)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_receiver_pull(receiver, 4, 0, 100, &report)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_receiver_pull(receiver, WB_LATEST, 0, -1, &report)));
  EXPECT_EQ(report, nullptr);
  EXPECT_TRUE(gives(WB_FAILED_PRECONDITION, wb_receiver_install(receiver, &report)))
      << "not a staging receiver";
  EXPECT_TRUE(gives(WB_DEADLINE, wb_receiver_pull(receiver, WB_LATEST, 0, 100, &report)))
      << "no trainer ever came";
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->memory, WB_MEMORY_UNTOUCHED);
  EXPECT_EQ(wb_last_error()->retryable, 1);
  EXPECT_TRUE(gives(WB_OK, wb_receiver_close(receiver, kTimeout)));
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_receiver_close(receiver, kTimeout)));
}

TEST(MisuseError, BelongsToItsThreadAndSuccessLeavesItAlone) {
  EXPECT_TRUE(gives(WB_INVALID_ARGUMENT, wb_table_free(nullptr)));
  std::thread([] {
    EXPECT_EQ(wb_last_error()->code, WB_OK);
    EXPECT_STREQ(wb_last_error()->sentence, "ok");
    EXPECT_EQ(wb_job_close(nullptr, 0), WB_INVALID_ARGUMENT);
    EXPECT_STREQ(wb_last_error()->sentence, "the job handle is NULL");
  }).join();
  wb_table* const table = make_table();
  EXPECT_STREQ(wb_last_error()->sentence, "the table handle is NULL");
  EXPECT_EQ(wb_last_error()->struct_size, sizeof(wb_error));
  EXPECT_TRUE(gives(WB_OK, wb_table_free(table)));
  EXPECT_STREQ(wb_code_name(WB_NO_MEMORY), "no_memory");
  EXPECT_STREQ(wb_code_name(-7), "internal");
}

}  // namespace
