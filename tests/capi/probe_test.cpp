// Probing through the public headers: learn a layout, pull with it, save it, compare it.
#include <gtest/gtest.h>
#include <weightbridge/weightbridge.hpp>

#include <cstdio>
#include <cstring>
#include <map>
#include <numeric>

namespace {

namespace wb = weightbridge;
using namespace std::chrono_literals;
constexpr auto kTimeout = 20s;
constexpr int64_t kRows = 6, kWidth = 8;

// A rollout worker: fuses [gate; up] and keeps a transposed copy of up, behind a scale that no
// checkpoint has.
struct Worker {
  std::vector<int32_t> fused = std::vector<int32_t>(2 * kRows * kWidth, 11);
  std::vector<int32_t> transposed = std::vector<int32_t>(kRows * kWidth, 12);
  std::vector<float> scale = {0.5f};

  void load(const std::vector<int32_t>& gate, const std::vector<int32_t>& up) {
    std::copy(gate.begin(), gate.end(), fused.begin());
    std::copy(up.begin(), up.end(), fused.begin() + kRows * kWidth);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kWidth; ++c) {
        transposed[static_cast<size_t>(c * kRows + r)] = up[static_cast<size_t>(r * kWidth + c)];
      }
    }
  }
  std::vector<wb::Buffer> buffers() {
    return {{"fused", wb::DType::kI32, {2 * kRows, kWidth}, fused.data()},
            {"scale", wb::DType::kF32, {1}, scale.data()},
            {"transposed", wb::DType::kI32, {kWidth, kRows}, transposed.data()}};
  }
  std::vector<wb::ProbePlace> places() {
    return {{"scale", scale.data(), 4},
            {"fused", fused.data(), fused.size() * 4},
            {"transposed", transposed.data(), transposed.size() * 4}};
  }
};

wb::Table make_table() {
  return wb::Table::create(
             {{"gate", wb::DType::kI32, {kRows, kWidth}}, {"up", wb::DType::kI32, {kRows, kWidth}}})
      .value();
}

std::vector<int32_t> dense(const wb::Probe& probe, size_t tensor) {
  std::vector<int32_t> all;
  probe.view(tensor).value().for_each([&](const std::byte* element) {
    int32_t value;
    std::memcpy(&value, element, 4);
    all.push_back(value);
  });
  return all;
}

wb::Status learn(wb::Probe* probe, Worker* worker) {
  for (const wb::Buffer& buffer : worker->buffers()) probe->add_buffer(buffer).value();
  return probe->run(
      [&](wb::Probe& now, const wb::ProbePass&) {
        worker->load(dense(now, 0), dense(now, 1));
        return wb::Status();
      },
      [&] { return worker->places(); });
}

TEST(Probe, LearnsALayoutAndPullsWithIt) {
  const wb::Table table = make_table();
  Worker worker;
  const Worker before = worker;
  auto probe = wb::Probe::create(table, {}).value();
  EXPECT_EQ(probe.summary().status().code(), wb::Code::kFailedPrecondition);
  learn(&probe, &worker).or_throw();
  EXPECT_EQ(worker.fused, before.fused);
  EXPECT_EQ(worker.scale, before.scale);

  const wb_probe_summary summary = probe.summary().value();
  EXPECT_EQ(summary.copied_bytes, 3u * kRows * kWidth * 4);
  EXPECT_EQ(summary.untouched_bytes, 4u);
  EXPECT_EQ(summary.buffer_bytes, summary.copied_bytes + 4);
  EXPECT_EQ(summary.one_home, 48u);
  EXPECT_EQ(summary.more_homes, 48u);
  EXPECT_EQ(summary.pieces, 3u);
  ASSERT_EQ(summary.ranges, 1u);
  const wb_probe_range range = probe.range(0).value();
  EXPECT_EQ(range.buffer, 1u);
  EXPECT_EQ(range.kind, WB_BYTES_UNTOUCHED);
  EXPECT_EQ(probe.homes(1).value().more_homes, 48u);
  EXPECT_NE(probe.report().value().find("\"untouched\":4"), std::string::npos);

  wb::JobOptions options;
  options.store = "embed:127.0.0.1:0";
  options.token = "secret";
  options.transports = "local";
  auto job = wb::Job::open(options, kTimeout).value();
  std::vector<int32_t> gate(kRows * kWidth), up(kRows * kWidth);
  std::iota(gate.begin(), gate.end(), 100);
  std::iota(up.begin(), up.end(), 900);
  auto have = wb::Layout::create(table).value();
  have.add_tensor("gate", gate).value();
  have.add_tensor("up", up).value();
  auto publisher = wb::Publisher::create(job, have, {}, kTimeout).value();
  publisher.publish(1).or_throw();
  const wb::Layout need = probe.layout().value();
  EXPECT_EQ(need.digest().value(), summary.digest);
  auto receiver = wb::Receiver::create(job, need, {.name = "rollout"}, kTimeout).value();
  receiver.pull(wb::latest, kTimeout).value();
  Worker want;
  want.load(gate, up);
  EXPECT_EQ(worker.fused, want.fused);
  EXPECT_EQ(worker.transposed, want.transposed);
  EXPECT_EQ(worker.scale, want.scale);
}

TEST(Probe, LayoutsAreSavedLoadedAndCompared) {
  const wb::Table table = make_table();
  Worker worker;
  auto probe = wb::Probe::create(table, {}).value();
  learn(&probe, &worker).or_throw();
  const wb::Layout learnt = probe.layout().value();
  const std::string path = testing::TempDir() + "probe_test_layout.json";
  learnt.save(path).or_throw();
  const auto [loaded_table, loaded] = wb::Layout::load(path).value();
  EXPECT_EQ(loaded.digest().value(), learnt.digest().value());
  EXPECT_EQ(wb::Layout::diff(learnt, loaded).value(), R"({"differences":[],"equal":true})");
  EXPECT_EQ(loaded.pieces().value().size(), 3u);
  EXPECT_EQ(loaded.extras().value().at(0).name, "scale");

  // The same mapping in other pieces, and one row swapped with another.
  for (const bool wrong : {false, true}) {
    auto declared = wb::Layout::create(table).value();
    for (const wb::Buffer& buffer : worker.buffers()) declared.add_buffer(buffer).value();
    for (int64_t r = 0; r < kRows; ++r) {
      const int64_t at = wrong ? r ^ 1 : r;
      declared.add_piece({"gate", 0, {r, 0}, {1, kWidth}, {}, at * kWidth * 4}).or_throw();
    }
    declared.add_piece({"up", 0, {0, 0}, {kRows, kWidth}, {}, kRows * kWidth * 4}).or_throw();
    declared.add_piece({"up", 2, {0, 0}, {kRows, kWidth}, {}, 0, {4, kRows * 4}}).or_throw();
    const std::string diff = wb::Layout::diff(learnt, declared).value();
    EXPECT_EQ(diff.find("\"equal\":true") != std::string::npos, !wrong) << diff;
    EXPECT_EQ(diff.find("only A: gate[0:6, 0:8] at byte 0") != std::string::npos, wrong) << diff;
  }
  std::remove(path.c_str());
}

TEST(Probe, ALoaderThatFailsIsAborted) {
  const wb::Table table = make_table();
  Worker worker;
  const Worker before = worker;
  auto probe = wb::Probe::create(table, {}).value();
  for (const wb::Buffer& buffer : worker.buffers()) probe.add_buffer(buffer).value();
  int loads = 0;
  const wb::Status status = probe.run(
      [&](wb::Probe& now, const wb::ProbePass&) {
        worker.load(dense(now, 0), dense(now, 1));
        return ++loads == 3 ? wb::Status::make(wb::Code::kNotFound, "no such name") : wb::Status();
      },
      [&] { return worker.places(); });
  EXPECT_EQ(status.code(), wb::Code::kNotFound);
  EXPECT_EQ(worker.fused, before.fused);
  EXPECT_EQ(probe.layout().status().code(), wb::Code::kFailedPrecondition);
}

TEST(Probe, Misuse) {
  const wb::Table table = make_table();
  EXPECT_EQ(wb_probe_create(table.get(), nullptr, nullptr), WB_INVALID_ARGUMENT);
  wb_probe_options options{};
  options.struct_size = sizeof options;
  options.restore = 9;
  wb_probe* probe = nullptr;
  EXPECT_EQ(wb_probe_create(table.get(), &options, &probe), WB_INVALID_ARGUMENT);
  ASSERT_EQ(wb_probe_create(table.get(), nullptr, &probe), WB_OK);
  EXPECT_EQ(wb_probe_begin_pass(probe, nullptr), WB_INVALID_ARGUMENT);
  wb_probe_pass pass{};
  EXPECT_EQ(wb_probe_begin_pass(probe, &pass), WB_INVALID_ARGUMENT) << "struct_size 0";
  wb_probe_view view{};
  EXPECT_EQ(wb_probe_view_of(probe, 0, &view), WB_FAILED_PRECONDITION);
  EXPECT_EQ(wb_probe_end_pass(probe, nullptr, 3), WB_INVALID_ARGUMENT);
  wb_layout* layout = nullptr;
  EXPECT_EQ(wb_probe_layout(probe, &layout), WB_FAILED_PRECONDITION);
  EXPECT_EQ(wb_probe_report(probe), nullptr);
  EXPECT_EQ(wb_layout_free(reinterpret_cast<wb_layout*>(probe)), WB_INVALID_ARGUMENT);
  EXPECT_EQ(wb_probe_free(probe), WB_OK);
  EXPECT_EQ(wb_probe_free(probe), WB_INVALID_ARGUMENT);
  EXPECT_EQ(wb_layout_diff(nullptr, nullptr), nullptr);
  EXPECT_EQ(wb_layout_digest(nullptr), nullptr);
  wb_table* loaded = nullptr;
  EXPECT_EQ(wb_layout_load("/nonexistent", &loaded, &layout), WB_NOT_FOUND);
}

}  // namespace
