// Real verbs over soft-RoCE, with faults of the link, in the guest of tools/rdma-lab --net pair
// --rails 2: sources use the devices of one end, readers those of the other.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "source_process.h"
#include "transport/registry.h"
#include "transport/verbs/wire.h"

namespace wb::test {
namespace {

// A soft-RoCE read may take many retries when packets are lost.
Deadline patiently() { return Deadline::after(std::chrono::seconds(50)); }

void fault(const std::string& words) {
  const std::string command = "rdma-fault " + words;
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

class VerbsLab : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("/sys/class/infiniband/rxa0")) {
      GTEST_SKIP() << "no device rxa0: run it in tools/rdma-lab --net pair --rails 2";
    }
    start("devices=rxa0+rxa1", "devices=rxb0+rxb1");
  }
  void TearDown() override { connection_.reset(); }

  void start(const std::string& source, const std::string& reader) {
    connection_.reset();
    source_ = SourceProcess::start(TransportKind::kVerbs, source);
    DomainOptions options;
    options.verbs = parse_verbs_options(reader).value();
    domain_ = make_domain(TransportKind::kVerbs, options).value();
    connect();
  }
  void connect() {
    connection_.reset();
    auto made = domain_->connect(source_->address(), SourceProcess::exchange(source_), soon());
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    connection_ = std::move(*made);
  }
  // A job for all of `region`, into memory_.
  std::unique_ptr<ReadJob> whole(const SourceProcess::Region& region, uint64_t bytes) {
    memory_ = Allocation::host(bytes, {}).value();
    std::memset(memory_->data(), 0xee, bytes);
    const RegionId target = domain_->register_region(memory_, Access::kLocalTarget).value();
    const auto remote = connection_->import_region(region.key, soon());
    EXPECT_TRUE(remote.ok()) << remote.status().to_string();
    return connection_->prepare({.runs = {{.length = bytes}}}, {{*remote}}, {{target}}).value();
  }
  JobState finish(ReadJob* job) {
    const Deadline deadline = patiently();
    while (connection_->poll(*job) == JobState::kActive && !deadline.expired()) {
      std::this_thread::yield();
    }
    EXPECT_NE(job->state(), JobState::kActive) << "no end";
    return job->state();
  }
  void begin(ReadJob* job) {
    ASSERT_TRUE(connection_->post(*job).ok());
    while (job->bytes_done() == 0) ASSERT_EQ(connection_->poll(*job), JobState::kActive);
  }
  void expect_bytes(uint64_t seed, bool all) {
    for (uint64_t i = 0; i < memory_->bytes(); ++i) {
      const auto byte = static_cast<uint8_t>(memory_->data()[i]);
      if (!all && byte == 0xee) continue;
      ASSERT_EQ(byte, pattern_byte(seed, i)) << i;
    }
  }
  void expect_done(ReadJob* job, uint64_t seed) {
    ASSERT_EQ(finish(job), JobState::kDone) << job->status().to_string();
    expect_bytes(seed, true);
  }

  std::shared_ptr<SourceProcess> source_;
  std::unique_ptr<Domain> domain_;
  std::unique_ptr<Connection> connection_;
  std::shared_ptr<Allocation> memory_;
};

TEST_F(VerbsLab, BothRailsCarry) {
  const auto job = whole(source_->region(MemoryKind::kHost, (8u << 20) + 5, 1), (8u << 20) + 5);
  begin(job.get());
  expect_done(job.get(), 1);
  EXPECT_NE(connection_->mechanism().find("rxb0"), std::string::npos);
  EXPECT_NE(connection_->mechanism().find("rxb1"), std::string::npos);
  EXPECT_EQ(connection_->mechanism().find("failed"), std::string::npos);
}

TEST_F(VerbsLab, SourceKilledInTheMiddle) {
  const auto job = whole(source_->region(MemoryKind::kHost, 32u << 20, 1), 32u << 20);
  begin(job.get());
  source_->kill();
  ASSERT_EQ(finish(job.get()), JobState::kFailed);
  EXPECT_EQ(job->status().code(), Code::kPeerLost) << job->status().to_string();
  expect_bytes(1, false);
  // Another life of it is read by a new connection.
  start("devices=rxa0+rxa1", "devices=rxb0+rxb1");
  const auto again = whole(source_->region(MemoryKind::kHost, 1u << 20, 2), 1u << 20);
  begin(again.get());
  expect_done(again.get(), 2);
}

TEST_F(VerbsLab, RegionDeregisteredInTheMiddle) {
  const auto region = source_->region(MemoryKind::kHost, 32u << 20, 1);
  const auto job = whole(region, 32u << 20);
  begin(job.get());
  std::string request;
  put_word(request, region.id);
  ASSERT_TRUE(source_->call(Op::kDeregister, request).ok());
  ASSERT_EQ(finish(job.get()), JobState::kFailed);
  EXPECT_EQ(job->status().code(), Code::kPeerLost) << job->status().to_string();
  expect_bytes(1, false);
  connect();
  EXPECT_EQ(connection_->import_region(region.key, soon()).status().code(), Code::kNotFound);
}

// A key that says more than the source registered.
TEST_F(VerbsLab, ReadPastTheEndIsRefusedByTheSource) {
  auto region = source_->region(MemoryKind::kHost, 1u << 20, 1);
  auto key = verbs::decode_key(region.key).value();
  key.bytes *= 2;
  key.slice_bytes *= 2;
  region.key = verbs::encode(key);
  const auto job = whole(region, 2u << 20);
  ASSERT_TRUE(connection_->post(*job).ok());
  ASSERT_EQ(finish(job.get()), JobState::kFailed);
  EXPECT_NE(job->status().message().find("REM_ACCESS_ERR"), std::string::npos)
      << job->status().to_string();
}

TEST_F(VerbsLab, OneRailDownIsCarriedByTheOtherAndComesBack) {
  const auto job = whole(source_->region(MemoryKind::kHost, 24u << 20, 1), 24u << 20);
  begin(job.get());
  fault("link down rxb0");
  expect_done(job.get(), 1);
  EXPECT_NE(connection_->mechanism().find("failed"), std::string::npos);
  fault("link up rxb0");
  const Deadline deadline = patiently();
  while (connection_->mechanism().find("failed") != std::string::npos && !deadline.expired()) {
    uint64_t word = 0;
    ASSERT_TRUE(connection_->read_words(0, 0, {&word, 1}, soon()).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(connection_->mechanism().find("failed"), std::string::npos);
  std::memset(memory_->data(), 0xee, memory_->bytes());
  begin(job.get());
  expect_done(job.get(), 1);
}

TEST_F(VerbsLab, TheOnlyRailDownIsAnErrorAndANewConnectionWorksAfterwards) {
  start("devices=rxa0", "devices=rxb0");
  const auto region = source_->region(MemoryKind::kHost, 24u << 20, 1);
  const auto job = whole(region, 24u << 20);
  begin(job.get());
  fault("link down rxb0");
  ASSERT_EQ(finish(job.get()), JobState::kFailed);
  EXPECT_TRUE(job->status().retryable()) << job->status().to_string();
  expect_bytes(1, false);
  fault("link up rxb0");
  connect();
  const auto again = whole(region, 24u << 20);
  begin(again.get());
  expect_done(again.get(), 1);
}

class VerbsLoss : public VerbsLab, public testing::WithParamInterface<const char*> {};

TEST_P(VerbsLoss, LostPacketsCostTimeOnly) {
  start("devices=rxa0,timeout=14", "devices=rxb0,timeout=14,max_read=65536");
  const auto job = whole(source_->region(MemoryKind::kHost, 1u << 20, 1), 1u << 20);
  fault(std::string("loss rxa0 ") + GetParam());
  ASSERT_TRUE(connection_->post(*job).ok());
  expect_done(job.get(), 1);
  fault("none rxa0");
}
INSTANTIATE_TEST_SUITE_P(Percent, VerbsLoss, testing::Values("1", "5"),
                         [](const auto& info) { return std::string(info.param); });

size_t descriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

TEST_F(VerbsLab, ManyConnectionsLeaveNothing) {
  const auto region = source_->region(MemoryKind::kHost, 64u << 10, 1);
  size_t before = 0;
  for (int i = 0; i < 100; ++i) {
    connect();
    const auto job = whole(region, 64u << 10);
    ASSERT_TRUE(connection_->post(*job).ok());
    expect_done(job.get(), 1);
    if (i == 0) before = descriptors();
  }
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace wb::test
