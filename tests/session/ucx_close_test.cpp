// Over UCX's emulated reads the source's process reads its memory for the reader: never after
// close.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "world.h"

namespace wb::testing {
namespace {

constexpr uint64_t kBytes = 64u << 20;

class Weights {
 public:
  explicit Weights(int value)
      : base_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(base_, MAP_FAILED);
    std::memset(base_, value, kBytes);
  }
  // The address stays taken, so that a late read faults and does not find other memory.
  void take_away() { EXPECT_EQ(mprotect(base_, kBytes, PROT_NONE), 0); }
  ~Weights() { munmap(base_, kBytes); }
  std::vector<BoundBuffer> bound() const {
    return {{Allocation::caller(base_, kBytes).value(), 0}};
  }

 private:
  void* base_;
};

std::shared_ptr<Job> open_job(const std::string& store) {
  JobOptions options;
  options.name = "ucx";
  options.token = "token-of-the-tests";
  options.store = store;
  options.transports = {TransportKind::kUcx};
  auto job = Job::open(options, soon());
  EXPECT_TRUE(job.ok()) << job.status().to_string();
  return std::move(job).value();
}

ReceiverOptions reader_options() {
  ReceiverOptions options;
  options.name = "r";
  return options;
}

std::unique_ptr<Publisher> publish(const std::shared_ptr<Job>& job, const TensorTable& table,
                                   const Weights& weights, uint64_t version) {
  auto publisher =
      Publisher::create(job, table, whole(table), weights.bound(), PublisherOptions{}, soon());
  EXPECT_TRUE(publisher.ok()) << publisher.status().to_string();
  EXPECT_TRUE((*publisher)->begin_update(nullptr).ok());
  EXPECT_TRUE((*publisher)->publish(version, nullptr).ok());
  return std::move(publisher).value();
}

TEST(UcxClose, NoReadOutlivesThePublisherThatItWasMeantFor) {
  setenv("UCX_TLS", "tcp", 1);
  const TensorTable table =
      TensorTable::make({{"x", DType::kU32, {static_cast<int64_t>(kBytes / 4)}}}).value();
  const auto trainer = open_job("embed:127.0.0.1:0");
  const auto rollout = open_job(trainer->store_url());
  const auto target = bind_new_memory(whole(table), MemoryKind::kHost, {}).value();
  std::byte* const data = target[0].memory->data();

  Weights first(1);
  auto publisher = publish(trainer, table, first, 1);
  auto receiver = Receiver::create(rollout, table, whole(table), target, reader_options(), soon());
  ASSERT_TRUE(receiver.ok()) << receiver.status().to_string();
  std::atomic<int> pulls = 0;
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    PullReport report;
    while (!stop) {
      // Fails while no publisher is there.
      if ((*receiver)->pull(Want(), within(seconds(10)), &report).ok()) ++pulls;
    }
  });

  std::vector<std::unique_ptr<Weights>> gone;  // for the test's whole time
  for (int round = 2; round < 7; ++round) {
    const int before = pulls;
    const Deadline deadline = soon();
    while (pulls == before && !deadline.expired()) std::this_thread::yield();
    EXPECT_GT(pulls, before) << "round " << round;
    const Status closed = publisher->close(soon());
    EXPECT_TRUE(closed.ok()) << closed.to_string();
    if (round == 2) first.take_away();
    if (!gone.empty()) gone.back()->take_away();
    EXPECT_NE(publisher->report(), "") << "may be asked for after close";
    gone.push_back(std::make_unique<Weights>(round));
    publisher = publish(trainer, table, *gone.back(), static_cast<uint64_t>(round));
  }
  stop = true;
  reader.join();
  PullReport report;
  const Status pulled = (*receiver)->pull(Want(), soon(), &report);
  ASSERT_TRUE(pulled.ok()) << pulled.to_string();
  EXPECT_EQ(report.version.number, 6u);
  for (uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(data[i], std::byte{6}) << i;
  EXPECT_TRUE((*receiver)->close(soon()).ok());
  EXPECT_TRUE(publisher->close(soon()).ok());
  EXPECT_TRUE(trainer->close(soon()).ok());
}

}  // namespace
}  // namespace wb::testing
