// What is particular to the ucx transport: who must help, death, silence, and the host's signals.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>

#include "listeners.h"
#include "source_process.h"
#include "transport/registry.h"

namespace wb::test {
namespace {

DomainOptions with_tls(const std::string& tls) {
  DomainOptions options;
  options.ucx.tls = tls;
  return options;
}

// Carries a reader's requests to a domain of the same process.
class Answering : public Exchange {
 public:
  explicit Answering(Domain* source) : source_(source) {}
  Result<std::string> call(std::string_view payload, Deadline) override {
    return source_->handle_exchange(payload);
  }

 private:
  Domain* source_;
};

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

// The oracle of the next test sees what it looks for.
TEST(Listeners, TellLoopbackFromEverywhere) {
  for (const uint32_t host : {INADDR_LOOPBACK, INADDR_ANY}) {
    const auto before = own_listeners();
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(host);
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(fd, 1), 0);
    const auto after = own_listeners();
    EXPECT_EQ(after.size(), before.size() + 1);
    const auto count = [](const std::vector<Listener>& all) {
      return std::count_if(all.begin(), all.end(), [](const Listener& l) { return l.loopback; });
    };
    EXPECT_EQ(count(after) - count(before), host == INADDR_LOOPBACK ? 1 : 0);
    close(fd);
  }
}

TEST(Ucx, OnALoopbackHostNoPortIsOpenElsewhere) {
  unsetenv("UCX_NET_DEVICES");
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    for (const char* tls : {"tcp", ""}) {
      SCOPED_TRACE(std::string(host) + " " + tls);
      ASSERT_TRUE(own_listeners().empty());
      DomainOptions options = with_tls(tls);
      options.host = host;
      const auto domain = make_domain(TransportKind::kUcx, options);
      ASSERT_TRUE(domain.ok()) << domain.status().to_string();
      // A reader's side opens ports too.
      const auto connection = (*domain)->connect(
          (*domain)->address(), std::make_unique<Answering>(domain->get()), soon());
      ASSERT_TRUE(connection.ok()) << connection.status().to_string();
      const auto listeners = own_listeners();
      EXPECT_FALSE(listeners.empty());
      for (const Listener& one : listeners) EXPECT_TRUE(one.loopback) << one.address;
    }
  }
}

TEST(Ucx, TheUsersChoiceOfDevicesStands) {
  DomainOptions options = with_tls("tcp");
  options.host = "127.0.0.1";
  setenv("UCX_NET_DEVICES", "no_such_device", 1);
  EXPECT_FALSE(make_domain(TransportKind::kUcx, options).ok());
  unsetenv("UCX_NET_DEVICES");
  options.ucx.net_devices = "no_such_device";
  EXPECT_FALSE(make_domain(TransportKind::kUcx, options).ok());
}

// A domain's end is its readers' loss, at once and whatever is in flight, and no read is answered
// afterwards: the source may do what it likes with the memory.
TEST(Ucx, ADomainEndsUnderItsReaders) {
  constexpr uint64_t kBytes = 64u << 20;
  const auto reader = make_domain(TransportKind::kUcx, with_tls("tcp")).value();
  const RegionId to =
      reader->register_region(Allocation::host(kBytes, {}).value(), Access::kLocalTarget).value();
  for (int round = 0; round < 5; ++round) {
    void* const base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    ASSERT_NE(base, MAP_FAILED);
    auto source = make_domain(TransportKind::kUcx, with_tls("tcp")).value();
    const RegionId from =
        source->register_region(Allocation::caller(base, kBytes).value(), Access::kRemoteRead)
            .value();
    Domain* const answering = source.get();
    auto connection =
        reader->connect(source->address(), std::make_unique<Answering>(answering), soon()).value();
    const auto remote = connection->import_region(source->export_key(from).value(), soon());
    ASSERT_TRUE(remote.ok()) << remote.status().to_string();
    const auto job =
        connection->prepare({.runs = {{.length = kBytes}}}, {{*remote}}, {{to}}).value();
    ASSERT_TRUE(connection->post(*job).ok());
    for (int turn = 0; turn < 5 * round; ++turn) {
      source->progress();
      ASSERT_EQ(connection->poll(*job), JobState::kActive);
    }
    source.reset();
    mprotect(base, kBytes, PROT_NONE);
    const Deadline deadline = soon();
    while (connection->poll(*job) == JobState::kActive && !deadline.expired()) {
    }
    ASSERT_EQ(job->state(), JobState::kFailed);
    EXPECT_EQ(job->status().code(), Code::kPeerLost) << job->status().to_string();
    munmap(base, kBytes);
  }
}

class UcxTcp : public testing::Test {
 protected:
  void SetUp() override {
    source_ = SourceProcess::start(TransportKind::kUcx, "tcp");
    domain_ = make_domain(TransportKind::kUcx, with_tls("tcp")).value();
    connect();
  }

  void connect() {
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

// UCX aborts a source's process when a reader leaves with answers queued.
TEST_F(UcxTcp, TheSourceSurvivesReadersThatStopAtAnyMoment) {
  for (int round = 0; round < 8; ++round) {
    ASSERT_TRUE(connection_->post(*job_).ok());
    for (int turn = 0; turn <= round; ++turn) {
      ASSERT_EQ(connection_->poll(*job_), JobState::kActive);
    }
    const Status aborted = connection_->abort(*job_, soon());
    ASSERT_TRUE(aborted.ok()) << aborted.to_string();
    uint64_t word = 0;
    const Status read = connection_->read_words(remote_, 0, {&word, 1}, soon());
    ASSERT_TRUE(read.ok()) << "round " << round << ": " << read.to_string();
  }
  ASSERT_TRUE(connection_->post(*job_).ok());
  ASSERT_EQ(connection_->poll(*job_), JobState::kActive);
  connection_.reset();
  job_.reset();
  connect();
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
