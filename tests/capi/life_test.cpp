// The whole life of publishers and receivers through the public headers.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <weightbridge/weightbridge.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <thread>

#include "count_new.h"

namespace {

namespace wb = weightbridge;
using namespace std::chrono_literals;
constexpr auto kTimeout = 20s;

wb::Job open_job(wb::JobOptions options = {}) {
  options.store = "embed:127.0.0.1:0";
  options.token = "secret";
  options.transports = "local";
  return wb::Job::open(options, kTimeout).value();
}

// One tensor "w" of int32 {rows, columns}.
wb::Table make_table(int64_t rows, int64_t columns) {
  return wb::Table::create({{"w", wb::DType::kI32, {rows, columns}}}).value();
}

template <typename Range>
wb::Layout whole(const wb::Table& table, Range& range) {
  auto layout = wb::Layout::create(table).value();
  layout.add_tensor("w", range).value();
  return layout;
}

TEST(Life, StridedTransposedAndPaddedPieces) {
  // The trainer holds even and odd rows in two buffers; the receiver wants columns 1, 4, 7, 10
  // backwards and transposed, with a padding row that is zeroed at each pull.
  constexpr int64_t kRows = 6, kColumns = 12;
  const auto table = make_table(kRows, kColumns);
  std::vector<int32_t> even(kRows / 2 * kColumns), odd(kRows / 2 * kColumns);
  auto have = wb::Layout::create(table).value();
  for (const int64_t first : {0, 1}) {
    auto& rows = first == 0 ? even : odd;
    const auto buffer = have.add_buffer({.name = first == 0 ? "even" : "odd",
                                         .dtype = wb::DType::kI32,
                                         .shape = {kRows / 2, kColumns},
                                         .data = rows.data(),
                                         .bytes = rows.size() * sizeof rows[0]})
                            .value();
    have.add_piece({.tensor = "w",
                    .buffer = buffer,
                    .start = {first, 0},
                    .count = {kRows / 2, kColumns},
                    .step = {2, 1}})
        .or_throw();
  }
  std::vector<int32_t> served(5 * kRows, -7);
  auto need = wb::Layout::create(table).value();
  const auto buffer =
      need.add_buffer(
              {.name = "t", .dtype = wb::DType::kI32, .shape = {5, kRows}, .data = served.data()})
          .value();
  constexpr int64_t kPitch = kRows * 4;
  need.add_piece({.tensor = "w",
                  .buffer = buffer,
                  .start = {0, 1},
                  .count = {kRows, 4},
                  .step = {1, 3},
                  .offset = 3 * kPitch,
                  .stride = {4, -kPitch}})
      .or_throw();
  need.add_extra(buffer, 4 * kPitch, kPitch, wb::ExtraKind::kZeroFill, "padding").or_throw();

  auto job = open_job();
  auto publisher = wb::Publisher::create(job, have, {}, kTimeout).value();
  auto receiver = wb::Receiver::create(job, need, {.name = "rollout-0"}, kTimeout).value();
  const auto value = [](int version, int64_t row, int64_t column) {
    return static_cast<int32_t>(version * 1000 + row * kColumns + column);
  };
  for (int version = 1; version <= 3; ++version) {
    publisher.begin_update().or_throw();
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) {
        auto& rows = row % 2 == 0 ? even : odd;
        rows[static_cast<size_t>(row / 2 * kColumns + column)] = value(version, row, column);
      }
    }
    publisher.publish(static_cast<uint64_t>(version)).or_throw();
    std::fill(served.begin(), served.end(), -7);
    const auto report = receiver.pull(wb::latest, kTimeout).value();
    EXPECT_EQ(report.memory, wb::MemoryState::kComplete);
    EXPECT_EQ(report.version.number, static_cast<uint64_t>(version));
    EXPECT_EQ(report.bytes, 4u * kRows * 4);
    ASSERT_EQ(report.sources.size(), 1u);
    EXPECT_EQ(report.sources[0].transport, "local");
    EXPECT_FALSE(report.sources[0].mechanism.empty());
    EXPECT_FALSE(report.sources[0].reason.empty());
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(served[static_cast<size_t>((3 - i) * kRows + row)],
                  value(version, row, 1 + 3 * i));
      }
      EXPECT_EQ(served[static_cast<size_t>(4 * kRows + row)], 0);
    }
  }
}

TEST(Life, APieceWithoutStridesIsDense) {
  const auto table = make_table(4, 6);
  std::vector<int32_t> trained(24), served(6, -1);
  std::iota(trained.begin(), trained.end(), 0);
  const auto have = whole(table, trained);
  auto need = wb::Layout::create(table).value();
  const auto buffer =
      need.add_buffer(
              {.name = "part", .dtype = wb::DType::kI32, .shape = {3, 2}, .data = served.data()})
          .value();
  need.add_piece({.tensor = "w", .buffer = buffer, .start = {1, 2}, .count = {3, 2}}).or_throw();
  auto job = open_job();
  auto publisher = wb::Publisher::create(job, have, {}, kTimeout).value();
  publisher.publish(1).or_throw();
  auto receiver = wb::Receiver::create(job, need, {.name = "r"}, kTimeout).value();
  EXPECT_TRUE(receiver.pull(wb::latest, kTimeout).ok());
  EXPECT_EQ(served, (std::vector<int32_t>{8, 9, 14, 15, 20, 21}));
}

TEST(Life, PublishAllocatesNothing) {
  std::vector<int32_t> trained(1024);
  auto job = open_job();
  const auto layout = whole(make_table(32, 32), trained);
  auto publisher = wb::Publisher::create(job, layout, {}, kTimeout).value();
  publisher.publish(1).or_throw();
  const int64_t before = allocations_of_this_thread();
  for (uint64_t number = 2; number < 100; ++number) {
    if (wb_publisher_begin_update(publisher.get(), nullptr) != WB_OK) FAIL();
    if (wb_publisher_publish(publisher.get(), number, nullptr) != WB_OK) FAIL();
  }
  EXPECT_EQ(allocations_of_this_thread() - before, 0);
  (void)wb_table_free(nullptr);
  EXPECT_GT(allocations_of_this_thread() - before, 0) << "the counter does not see the library";
}

TEST(Life, EventsAndTimelineTellTheStepsInOrder) {
  std::vector<int32_t> trained(64, 5), served(64);
  const auto table = make_table(8, 8);
  const auto have = whole(table, trained), need = whole(table, served);
  auto job = open_job();
  auto publisher = wb::Publisher::create(job, have, {}, kTimeout).value();
  publisher.publish(1).or_throw();
  std::vector<wb::PullStep> begun;
  int open = 0;
  bool first_bytes = false;
  const auto puller = std::this_thread::get_id();
  auto receiver = wb::Receiver::create(job, need,
                                       {.name = "rollout-0",
                                        .on_event =
                                            [&](const wb::PullEvent& event) {
                                              EXPECT_EQ(std::this_thread::get_id(), puller);
                                              if (event.kind == wb::EventKind::kStepBegin) {
                                                begun.push_back(event.step);
                                                ++open;
                                              }
                                              if (event.kind == wb::EventKind::kStepEnd) --open;
                                              if (event.kind == wb::EventKind::kFirstBytes) {
                                                first_bytes = true;
                                                EXPECT_FALSE(event.source.empty());
                                              }
                                            }},
                                       kTimeout)
                      .value();
  const auto report = receiver.pull(wb::exactly(1), kTimeout).value();
  EXPECT_EQ(open, 0);
  EXPECT_TRUE(first_bytes);
  EXPECT_TRUE(std::count(begun.begin(), begun.end(), wb::PullStep::kRead) == 1);
  ASSERT_FALSE(report.timeline.empty());
  for (size_t i = 0; i < report.timeline.size(); ++i) {
    EXPECT_LE(report.timeline[i].begin, report.timeline[i].end);
    EXPECT_LE(report.timeline[i].end, report.total_time);
    if (i != 0) {
      EXPECT_LE(report.timeline[i - 1].begin, report.timeline[i].begin);
    }
  }
}

TEST(Life, APullInsideItsOwnEventIsRefused) {
  std::vector<int32_t> trained(64, 5), served(64);
  const auto table = make_table(8, 8);
  const auto have = whole(table, trained), need = whole(table, served);
  auto job = open_job();
  auto publisher = wb::Publisher::create(job, have, {}, kTimeout).value();
  publisher.publish(1).or_throw();
  wb::Receiver* self = nullptr;
  wb::Code inner = wb::Code::kOk;
  auto receiver =
      wb::Receiver::create(
          job, need,
          {.name = "rollout-0",
           .on_event =
               [&](const wb::PullEvent&) { inner = self->pull(wb::latest, 1s).status().code(); }},
          kTimeout)
          .value();
  self = &receiver;
  EXPECT_TRUE(receiver.pull(wb::latest, kTimeout).ok());
  EXPECT_EQ(inner, wb::Code::kFailedPrecondition);
}

TEST(Life, CloseCancelsAPullInAnotherThread) {
  std::vector<int32_t> served(64, 3);
  const auto need = whole(make_table(8, 8), served);
  auto job = open_job();
  std::atomic<bool> waiting{false};
  auto receiver =
      wb::Receiver::create(job, need,
                           {.name = "rollout-0", .on_event = [&](const auto&) { waiting = true; }},
                           kTimeout)
          .value();
  wb_receiver* const handle = receiver.get();
  wb_code code = WB_OK;
  std::thread puller(
      [&] { code = wb_receiver_pull(handle, WB_LATEST, 0, WB_MAX_TIMEOUT_MS, nullptr); });
  while (!waiting) std::this_thread::yield();
  EXPECT_EQ(receiver.close(kTimeout).to_string(), "ok");
  puller.join();
  EXPECT_EQ(code, WB_CANCELLED);
}

TEST(Life, ReportsAreJsonAndStatsCount) {
  std::vector<int32_t> trained(64), served(64);
  const auto table = make_table(8, 8);
  const auto have = whole(table, trained), need = whole(table, served);
  auto job = open_job();
  auto publisher = wb::Publisher::create(job, have, {}, kTimeout).value();
  auto receiver = wb::Receiver::create(job, need, {.name = "rollout-0"}, kTimeout).value();
  for (const auto& report : {publisher.report().value(), receiver.report().value()}) {
    EXPECT_EQ(report.front(), '{');
    EXPECT_EQ(report.back(), '}');
  }
  publisher.publish(7).or_throw();
  const auto stats = publisher.stats().value();
  EXPECT_EQ(stats.published, 1u);
  EXPECT_EQ(stats.version.number, 7u);
  EXPECT_GE(stats.version.generation, 1u);
  EXPECT_EQ(job.store_url().value().rfind("http://127.0.0.1:", 0), 0u);
}

TEST(Life, HandlesCloseInTheRightOrderWhateverOrderTheyDieIn) {
  std::vector<int32_t> trained(64, 9), served(64);
  auto table = std::make_optional(make_table(8, 8));
  auto have = std::make_optional(whole(*table, trained));
  auto need = std::make_optional(whole(*table, served));
  auto job = std::make_optional(open_job());
  const auto url = job->store_url().value();
  auto publisher = wb::Publisher::create(*job, *have, {}, kTimeout).value();
  auto receiver =
      std::make_optional(wb::Receiver::create(*job, *need, {.name = "r"}, kTimeout).value());
  table.reset();
  have.reset();
  need.reset();
  job.reset();  // its publisher and receiver keep it
  publisher.publish(1).or_throw();
  EXPECT_TRUE(receiver->pull(wb::latest, kTimeout).ok());
  EXPECT_EQ(served, trained);
  auto moved = std::move(publisher);
  EXPECT_EQ(publisher.publish(2).code(), wb::Code::kInvalidArgument) << "a moved-from publisher";
  receiver.reset();
  EXPECT_TRUE(moved.close().ok());
  // The embedded store went with the last of them.
  const auto late = wb::Job::open({.store = url, .token = "secret"}, 2s);
  EXPECT_FALSE(late.ok());
}

TEST(Life, LogRecordsReachTheSinkUntilTheJobCloses) {
  struct Seen {
    std::mutex mutex;
    size_t records = 0;
  } seen;
  wb::JobOptions options;
  options.log_level = wb::LogLevel::kDebug;
  options.log = [&](const wb::LogRecord& record) {
    EXPECT_FALSE(record.room.empty());
    EXPECT_FALSE(record.message.empty());
    const std::lock_guard lock(seen.mutex);
    ++seen.records;
  };
  {
    std::vector<int32_t> trained(64), served(64);
    const auto table = make_table(8, 8);
    const auto have = whole(table, trained), need = whole(table, served);
    auto job = open_job(options);
    auto publisher = wb::Publisher::create(job, have, {}, kTimeout).value();
    publisher.publish(1).or_throw();
    auto receiver = wb::Receiver::create(job, need, {.name = "r"}, kTimeout).value();
    EXPECT_TRUE(receiver.pull(wb::latest, kTimeout).ok());
  }
  const std::lock_guard lock(seen.mutex);
  EXPECT_GT(seen.records, 0u);
}

TEST(Life, BothErrorStyles) {
  const auto missing = wb::Table::open("/nonexistent/model.safetensors");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), wb::Code::kNotFound);
  EXPECT_FALSE(missing.status().message().empty());
  try {
    (void)missing.value();
    FAIL() << "value() of an error";
  } catch (const wb::Error& error) {
    EXPECT_EQ(error.code(), wb::Code::kNotFound);
    EXPECT_EQ(std::string(error.what()).rfind("not_found: ", 0), 0u) << error.what();
  }
  const auto table = make_table(2, 2);
  auto layout = wb::Layout::create(table).value();
  EXPECT_EQ(layout.add_piece({.tensor = "w", .start = {0, 0}, .count = {1}}).code(),
            wb::Code::kInvalidArgument);
}

// ---- Memory ------------------------------------------------------------------------------------

TEST(LifeMemory, ManyBuffersInOneAllocationAreOneRegion) {
  // Shared library memory cut into buffers by hand, recognised by address.
  const auto table = wb::Table::create({{"a", wb::DType::kU8, {100}},
                                        {"b", wb::DType::kU8, {100}},
                                        {"c", wb::DType::kU8, {100}}})
                         .value();
  auto memory = std::make_optional(wb::Memory::alloc(4096).value());
  auto* const base = static_cast<uint8_t*>(memory->data());
  EXPECT_EQ(std::count(base, base + 4096, 0), 4096);
  auto have = wb::Layout::create(table).value();
  have.add_tensor("a", base, 100).value();
  have.add_tensor("b", base + 1000, 100).value();
  have.add_tensor("c", base + 3996, 100).value();
  memory.reset();  // the layout keeps it
  std::memset(base, 7, 4096);

  std::vector<uint8_t> served(300);
  auto need = wb::Layout::create(table).value();
  need.add_tensor("a", served.data(), 100).value();
  need.add_tensor("b", served.data() + 100, 100).value();
  need.add_tensor("c", served.data() + 200, 100).value();
  auto job = open_job();
  auto publisher = wb::Publisher::create(job, have, {}, kTimeout).value();
  publisher.publish(1).or_throw();
  auto receiver = wb::Receiver::create(job, need, {.name = "r"}, kTimeout).value();
  const auto report = receiver.pull(wb::latest, kTimeout).value();
  EXPECT_EQ(report.sources.at(0).mechanism, "mapped memfd") << "the region is not the shared one";
  EXPECT_EQ(served, std::vector<uint8_t>(300, 7));
}

TEST(LifeMemory, AllocatedBuffersAreRecognisedInAnotherLayout) {
  const auto table = make_table(2, 2);
  auto owner = wb::Layout::create(table).value();
  owner.add_tensor("w").value();
  owner.allocate().or_throw();
  void* const data = owner.buffers().value().at(0).data;
  std::memset(data, 1, 16);
  auto have = wb::Layout::create(table).value();
  have.add_tensor("w", data, 16).value();
  std::vector<int32_t> served(4);
  const auto need = whole(table, served);
  auto job = open_job();
  auto publisher = wb::Publisher::create(job, have, {}, kTimeout).value();
  publisher.publish(1).or_throw();
  auto receiver = wb::Receiver::create(job, need, {.name = "r"}, kTimeout).value();
  const auto report = receiver.pull(wb::latest, kTimeout).value();
  EXPECT_EQ(report.sources.at(0).mechanism, "mapped memfd");
  EXPECT_EQ(served, std::vector<int32_t>(4, 0x01010101));
}

TEST(LifeMemory, AdoptedAndUnknownMemoryMix) {
  const auto table = wb::Table::create({{"a", wb::DType::kU8, {5000}},
                                        {"b", wb::DType::kU8, {5000}},
                                        {"c", wb::DType::kU8, {0, 4}},
                                        {"d", wb::DType::kU8, {}}})
                         .value();
  std::vector<uint8_t> pool(12000, 1), alone(5000, 2);
  uint8_t scalar = 3;
  ASSERT_EQ(wb_memory_adopt(pool.data(), pool.size()), WB_OK);
  auto have = wb::Layout::create(table).value();
  have.add_tensor("a", pool.data() + 3000, 5000).value();
  have.add_tensor("b", alone).value();
  have.add_tensor("c").value();  // no elements: needs no memory
  have.add_tensor("d", &scalar, 1).value();
  std::vector<uint8_t> a(5000), b(5000);
  uint8_t d = 0;
  auto need = wb::Layout::create(table).value();
  need.add_tensor("d", &d, 1).value();
  need.add_tensor("a", a).value();
  need.add_tensor("b", b).value();
  auto job = open_job();
  auto publisher = wb::Publisher::create(job, have, {}, kTimeout).value();
  publisher.publish(1).or_throw();
  auto receiver = wb::Receiver::create(job, need, {.name = "r"}, kTimeout).value();
  EXPECT_TRUE(receiver.pull(wb::latest, kTimeout).ok());
  EXPECT_EQ(a, std::vector<uint8_t>(5000, 1));
  EXPECT_EQ(b, alone);
  EXPECT_EQ(d, 3);
  EXPECT_EQ(wb_memory_free(pool.data()), WB_OK);
}

TEST(LifeMemory, UnmappedHolesBetweenBuffersAreNotRegistered) {
  // Three pages, the middle one unmapped: the buffers at both ends must not become one region.
  constexpr size_t kPage = 4096;
  auto* const base = static_cast<uint8_t*>(
      mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(base, MAP_FAILED);
  ASSERT_EQ(munmap(base + kPage, kPage), 0);
  std::memset(base, 4, kPage);
  std::memset(base + 2 * kPage, 5, kPage);
  const auto table =
      wb::Table::create({{"a", wb::DType::kU8, {4096}}, {"b", wb::DType::kU8, {4096}}}).value();
  auto have = wb::Layout::create(table).value();
  have.add_tensor("b", base + 2 * kPage, kPage).value();
  have.add_tensor("a", base, kPage).value();
  std::vector<uint8_t> a(kPage), b(kPage);
  auto need = wb::Layout::create(table).value();
  need.add_tensor("a", a).value();
  need.add_tensor("b", b).value();
  {
    auto job = open_job();
    auto publisher = wb::Publisher::create(job, have, {}, kTimeout).value();
    publisher.publish(1).or_throw();
    auto receiver = wb::Receiver::create(job, need, {.name = "r"}, kTimeout).value();
    EXPECT_TRUE(receiver.pull(wb::latest, kTimeout).ok());
  }
  EXPECT_EQ(a, std::vector<uint8_t>(kPage, 4));
  EXPECT_EQ(b, std::vector<uint8_t>(kPage, 5));
  munmap(base, kPage);
  munmap(base + 2 * kPage, kPage);
}

TEST(LifeLayout, BuffersDescribeThemselvesAndAllocate) {
  const auto table = make_table(4, 4);
  auto layout = wb::Layout::create(table).value();
  std::vector<int32_t> mine(16);
  layout.add_tensor("w", mine).value();
  layout.add_buffer({.name = "scratch", .dtype = wb::DType::kBF16, .shape = {3, 5}}).value();
  layout.add_buffer({.name = "more", .dtype = wb::DType::kU8, .shape = {7}, .bytes = 9}).value();
  layout.allocate({.kind = wb::MemoryKind::kHost, .name = "engine"}).or_throw();
  const auto buffers = layout.buffers().value();
  ASSERT_EQ(buffers.size(), 3u);
  EXPECT_EQ(buffers[0].data, mine.data());
  EXPECT_EQ(buffers[1].name, "scratch");
  EXPECT_EQ(buffers[1].bytes, 30u);
  EXPECT_EQ(buffers[1].shape, (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(buffers[2].bytes, 9u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers[1].data) % 4096, 0u);
  EXPECT_NE(buffers[1].data, buffers[2].data);
  std::memset(buffers[1].data, 1, 30);
  const auto tensors = table.tensors().value();
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].name, "w");
  EXPECT_EQ(tensors[0].shape, (std::vector<int64_t>{4, 4}));
}

TEST(LifeMismatch, AnotherTableIsRefused) {
  std::vector<int32_t> trained(64), served(32);
  const auto have = whole(make_table(8, 8), trained);
  const auto need = whole(make_table(8, 4), served);
  auto job = open_job();
  auto publisher = wb::Publisher::create(job, have, {}, kTimeout).value();
  publisher.publish(1).or_throw();
  auto receiver = wb::Receiver::create(job, need, {.name = "r"}, kTimeout).value();
  EXPECT_EQ(receiver.pull(wb::latest, kTimeout).status().code(), wb::Code::kMismatch);
  EXPECT_EQ(receiver.last_report().memory, wb::MemoryState::kUntouched);
}

}  // namespace
