// What is particular to the ucx transport: who must help, death, silence, and the host's signals.
#include <gtest/gtest.h>

#include <array>
#include <csignal>

#include "source_process.h"
#include "transport/registry.h"

namespace wb::test {
namespace {

DomainOptions with_tls(const std::string& tls) {
  DomainOptions options;
  options.ucx.tls = tls;
  return options;
}

void own_handler(int) {}

TEST(Ucx, LeavesTheProgramsSignalHandlersAlone) {
  constexpr std::array<int, 4> kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  for (const int number : kSignals) std::signal(number, own_handler);
  ASSERT_TRUE(make_domain(TransportKind::kUcx, with_tls("tcp")).ok());
  for (const int number : kSignals) {
    struct sigaction now {};
    sigaction(number, nullptr, &now);
    EXPECT_EQ(now.sa_handler, own_handler) << number;
    std::signal(number, SIG_DFL);
  }
}

TEST(Ucx, SaysWhetherTheSourceMustHelp) {
  EXPECT_TRUE(make_domain(TransportKind::kUcx, with_tls("tcp")).value()->needs_source_progress());
  EXPECT_TRUE(make_domain(TransportKind::kUcx, with_tls("")).value()->needs_source_progress());
}

TEST(Ucx, RefusesTransportsThatItDoesNotHave) {
  const auto domain = make_domain(TransportKind::kUcx, with_tls("no_such_transport"));
  ASSERT_FALSE(domain.ok());
  EXPECT_NE(domain.status().facts().vendor, 0) << domain.status().to_string();
}

class UcxTcp : public testing::Test {
 protected:
  void SetUp() override {
    source_ = SourceProcess::start(TransportKind::kUcx, "tcp");
    domain_ = make_domain(TransportKind::kUcx, with_tls("tcp")).value();
    auto connection =
        domain_->connect(source_->address(), SourceProcess::exchange(source_), soon());
    ASSERT_TRUE(connection.ok()) << connection.status().to_string();
    connection_ = std::move(*connection);
    const auto remote =
        connection_->import_region(source_->region(MemoryKind::kHost, kBytes, 1).key, soon());
    ASSERT_TRUE(remote.ok()) << remote.status().to_string();
    remote_ = *remote;
    const RegionId to =
        domain_->register_region(Allocation::host(kBytes, {}).value(), Access::kLocalTarget)
            .value();
    job_ = connection_->prepare({.runs = {{.length = kBytes}}}, {{remote_}}, {{to}}).value();
  }

  static constexpr uint64_t kBytes = 64u << 20;
  std::shared_ptr<SourceProcess> source_;
  std::unique_ptr<Domain> domain_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<ReadJob> job_;
  RemoteRegion remote_ = 0;
};

TEST_F(UcxTcp, NamesTcpAndTheHelp) {
  EXPECT_EQ(connection_->mechanism(), "ucx tcp (source helps)");
}

TEST_F(UcxTcp, ADeadSourceEndsTheJob) {
  ASSERT_TRUE(connection_->post(*job_).ok());
  ASSERT_EQ(connection_->poll(*job_), JobState::kActive);
  source_->kill();
  const Deadline deadline = soon();
  while (connection_->poll(*job_) == JobState::kActive && !deadline.expired()) {
  }
  ASSERT_EQ(job_->state(), JobState::kFailed);
  EXPECT_EQ(job_->status().code(), Code::kPeerLost) << job_->status().to_string();
  EXPECT_NE(job_->status().facts().vendor, 0);
  EXPECT_EQ(connection_->alive().code(), Code::kPeerLost);
  EXPECT_FALSE(connection_->post(*job_).ok());
}

TEST_F(UcxTcp, AStoppedSourceLeavesTheJobToItsDeadlineAndAbortEndsIt) {
  source_->signal(SIGSTOP);
  ASSERT_TRUE(connection_->post(*job_).ok());
  for (int i = 0; i < 100; ++i) ASSERT_EQ(connection_->poll(*job_), JobState::kActive);
  uint64_t word = 0;
  EXPECT_EQ(connection_
                ->read_words(remote_, 0, {&word, 1}, Deadline::after(std::chrono::milliseconds(50)))
                .code(),
            Code::kDeadline);
  const Status aborted = connection_->abort(*job_, soon());
  EXPECT_TRUE(aborted.ok()) << aborted.to_string();
  EXPECT_EQ(job_->status().code(), Code::kCancelled);
  source_->signal(SIGCONT);
}

// A job that is dropped while UCX still fills its memory, then the same with the connection first.
TEST_F(UcxTcp, JobsMayBeDroppedInAnyOrder) {
  source_->signal(SIGSTOP);
  ASSERT_TRUE(connection_->post(*job_).ok());
  ASSERT_EQ(connection_->poll(*job_), JobState::kActive);
  job_.reset();
  EXPECT_FALSE(connection_->alive().ok()) << "its endpoint had to be closed";
  source_->signal(SIGCONT);
}

TEST_F(UcxTcp, AJobMayOutliveItsConnection) {
  ASSERT_TRUE(connection_->post(*job_).ok());
  ASSERT_EQ(connection_->poll(*job_), JobState::kActive);
  connection_.reset();
  job_.reset();
}

}  // namespace
}  // namespace wb::test
