// What an in-place publish costs the trainer: begin_update + publish, for small and large weights
// and few and many receivers that poll for a version. Publishing must not grow with either.
#include <gflags/gflags.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "session/job.h"
#include "session/publisher.h"
#include "session/receiver.h"

DEFINE_uint64(publishes, 2000, "publishes per row");
DEFINE_uint64(small_bytes, uint64_t{1} << 20, "weights of the small rows");
DEFINE_uint64(large_bytes, uint64_t{1} << 30, "weights of the large rows");
DEFINE_uint64(receivers, 16, "receivers of the crowded rows");

namespace wb {
namespace {

constexpr int64_t kRow = 4096;

Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

// Ends the program with the reason: a measurement has no other use for an error.
template <typename T>
T take(Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().to_string().c_str());
    std::exit(1);
  }
  return std::move(result).value();
}
void take(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

// The first `rows` rows of the only tensor.
WorkerLayout rows_layout(int64_t rows) {
  WorkerLayout layout;
  layout.buffers.push_back(
      {"weights", DType::kU8, {rows, kRow}, static_cast<uint64_t>(rows * kRow)});
  Piece piece;
  piece.box = take(Box::make(std::vector<Progression>{{0, rows, 1}, {0, kRow, 1}}));
  piece.stride = {kRow, 1};
  layout.pieces.push_back(piece);
  return layout;
}

std::shared_ptr<Job> open_job(const std::string& store) {
  JobOptions options;
  options.token = "measurement";
  options.store = store;
  options.transports = {TransportKind::kLocal};
  return take(Job::open(options, soon()));
}

struct Costs {
  double median_us = 0;
  double p99_us = 0;
  double max_us = 0;
};

Costs measure(uint64_t bytes, uint64_t receivers) {
  const int64_t rows = std::max<int64_t>(1, static_cast<int64_t>(bytes) / kRow);
  const TensorTable table = take(TensorTable::make({{"weights", DType::kU8, {rows, kRow}}}));
  const auto trainer_job = open_job("embed:127.0.0.1:0");
  const WorkerLayout layout = rows_layout(rows);
  auto publisher =
      take(Publisher::create(trainer_job, table, layout,
                             take(bind_new_memory(layout, MemoryKind::kShared, {})), {}, soon()));

  // The receivers wait for a version that does not come.
  const auto rollout_job = open_job(trainer_job->store_url());
  const WorkerLayout part = rows_layout(1);
  std::vector<std::unique_ptr<Receiver>> pullers;
  std::vector<std::thread> threads;
  std::atomic<uint64_t> polling = 0;
  for (uint64_t i = 0; i < receivers; ++i) {
    ReceiverOptions options;
    options.name = "rollout-" + std::to_string(i);
    options.on_event = [&](const PullEvent& event) {
      if (event.kind == PullEvent::Kind::kStepBegin && event.step == PullStep::kWait) ++polling;
    };
    pullers.push_back(take(Receiver::create(rollout_job, table, part,
                                            take(bind_new_memory(part, MemoryKind::kHost, {})),
                                            options, soon())));
    threads.emplace_back([receiver = pullers.back().get()] {
      const Want never{Want::Kind::kExactly, ~uint64_t{0}};
      const Status status = receiver->pull(never, Deadline::after(std::chrono::hours(1)), nullptr);
      if (status.code() != Code::kCancelled) take(status);
    });
  }
  while (polling < receivers) std::this_thread::yield();

  std::vector<double> us;
  for (uint64_t version = 1; version <= FLAGS_publishes; ++version) {
    const auto begun = Deadline::Clock::now();
    take(publisher->begin_update(nullptr));
    take(publisher->publish(version, nullptr));
    us.push_back(std::chrono::duration<double, std::micro>(Deadline::Clock::now() - begun).count());
    if (version % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  for (auto& receiver : pullers) take(receiver->close(soon()));
  for (std::thread& thread : threads) thread.join();
  take(publisher->close(soon()));
  take(trainer_job->close(soon()));

  std::sort(us.begin(), us.end());
  return {us[us.size() / 2], us[us.size() * 99 / 100], us.back()};
}

}  // namespace
}  // namespace wb

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  std::printf("in-place begin_update + publish, microseconds, %lu each\n", FLAGS_publishes);
  std::printf("%14s %10s %9s %9s %9s\n", "weights", "receivers", "median", "p99", "max");
  for (const uint64_t bytes : {FLAGS_small_bytes, FLAGS_large_bytes}) {
    for (const uint64_t receivers : {uint64_t{1}, FLAGS_receivers}) {
      const wb::Costs costs = wb::measure(bytes, receivers);
      std::printf("%14lu %10lu %9.3f %9.3f %9.3f\n", bytes, receivers, costs.median_us,
                  costs.p99_us, costs.max_us);
    }
  }
  return 0;
}
