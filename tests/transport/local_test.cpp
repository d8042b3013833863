// What is particular to the local transport: mechanisms, permissions, death, hostile sockets, and
// what a read costs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "counting.h"
#include "source_process.h"
#include "transport/local/fd_server.h"
#include "transport/local/mapping.h"
#include "transport/local/socket_name.h"
#include "transport/local/wire.h"
#include "transport/registry.h"

namespace wb::test {
namespace {

class Local : public testing::TestWithParam<MemoryKind> {
 protected:
  void SetUp() override {
    source_ = SourceProcess::start(TransportKind::kLocal);
    domain_ = make_domain(TransportKind::kLocal, {}).value();
    connection_ = connect().value();
  }
  Result<std::unique_ptr<Connection>> connect() {
    return domain_->connect(source_->address(), SourceProcess::exchange(source_), soon());
  }
  RegionId target(uint64_t bytes) {
    memory_ = Allocation::host(bytes, {}).value();
    return domain_->register_region(memory_, Access::kLocalTarget).value();
  }
  bool mapped() const { return GetParam() == MemoryKind::kShared; }
  JobState finish(ReadJob& job) {
    while (connection_->poll(job) == JobState::kActive) {
    }
    return job.state();
  }
  Status deregister(const SourceProcess::Region& region) {
    std::string request;
    put_word(request, region.id);
    return source_->call(Op::kDeregister, request).status();
  }

  std::shared_ptr<SourceProcess> source_;
  std::unique_ptr<Domain> domain_;
  std::unique_ptr<Connection> connection_;
  std::shared_ptr<Allocation> memory_;
};

TEST_P(Local, SaysWhichMechanismItUses) {
  EXPECT_EQ(connection_->mechanism(), "no region imported");
  ASSERT_TRUE(connection_->import_region(source_->region(GetParam(), 64, 1).key, soon()).ok());
  EXPECT_EQ(connection_->mechanism(), mapped() ? "mapped memfd" : "process_vm_readv");
  ASSERT_TRUE(
      connection_->import_region(source_->region(MemoryKind::kCaller, 64, 1).key, soon()).ok());
  if (mapped()) {
    EXPECT_EQ(connection_->mechanism(), "mapped memfd for 1 region(s), process_vm_readv for 1");
  }
}

TEST_P(Local, AJobMayMixBothMechanisms) {
  const RemoteRegion a =
      connection_->import_region(source_->region(GetParam(), 4096, 1).key, soon()).value();
  const RemoteRegion b =
      connection_->import_region(source_->region(MemoryKind::kHost, 4096, 2).key, soon()).value();
  const RegionId to = target(8192);
  ReadList list;
  for (uint64_t i = 0; i < 64; ++i) {
    list.runs.push_back({.remote_region = static_cast<uint32_t>(i % 2),
                         .remote_offset = i * 64,
                         .local_offset = i * 64,
                         .length = 64});
  }
  auto job = connection_->prepare(list, {{a, b}}, {{to}}).value();
  ASSERT_TRUE(connection_->post(*job).ok());
  ASSERT_EQ(finish(*job), JobState::kDone) << job->status().to_string();
  for (uint64_t i = 0; i < 4096; ++i) {
    ASSERT_EQ(static_cast<uint8_t>(memory_->data()[i]), pattern_byte(1 + i / 64 % 2, i));
  }
}

// No allocation at all, and at most one system call per 1024 ranges or per poll's worth of bytes.
TEST_P(Local, ReadsCostNoAllocationAndFewSystemCalls) {
  constexpr uint64_t kRows = 20000;
  constexpr uint64_t kRow = 64;
  const RemoteRegion remote =
      connection_->import_region(source_->region(GetParam(), 2 * kRows * kRow, 1).key, soon())
          .value();
  const RegionId to = target(2 * kRows * kRow);
  const ReadList list{
      .runs = {
          {.length = kRow, .count = kRows, .remote_pitch = 2 * kRow, .local_pitch = 2 * kRow}}};
  auto job = connection_->prepare(list, {{remote}}, {{to}}).value();
  for (int round = 0; round < 3; ++round) {
    const uint64_t allocations_before = allocations;
    const uint64_t calls_before = readv_calls;
    const bool posted = connection_->post(*job).ok();
    const JobState state = finish(*job);
    const uint64_t allocated = allocations - allocations_before;
    const uint64_t called = readv_calls - calls_before;
    ASSERT_TRUE(posted);
    ASSERT_EQ(state, JobState::kDone) << job->status().to_string();
    EXPECT_EQ(allocated, 0u);
    // One more for the stamp that is looked at behind the data.
    EXPECT_EQ(called, mapped() ? 0 : (kRows + 1023) / 1024 + 1);
  }
  uint64_t word = 0;
  ASSERT_TRUE(connection_->read_words(remote, 0, {&word, 1}, soon()).ok());
  const uint64_t allocations_before = allocations;
  const uint64_t calls_before = readv_calls;
  ASSERT_TRUE(connection_->read_words(remote, 0, {&word, 1}, soon()).ok());
  EXPECT_EQ(allocations - allocations_before, 0u);
  EXPECT_EQ(readv_calls - calls_before, mapped() ? 0u : 2u);
}

TEST_P(Local, ADeadSourceIsNoticed) {
  constexpr uint64_t kBytes = 64u << 20;
  const RemoteRegion remote =
      connection_->import_region(source_->region(GetParam(), kBytes, 4).key, soon()).value();
  const RegionId to = target(kBytes);
  auto job = connection_->prepare({.runs = {{.length = kBytes}}}, {{remote}}, {{to}}).value();
  ASSERT_TRUE(connection_->post(*job).ok());
  ASSERT_EQ(connection_->poll(*job), JobState::kActive);
  source_->kill();
  const JobState end = finish(*job);
  EXPECT_EQ(connection_->alive().code(), Code::kPeerLost);
  EXPECT_FALSE(connection_->alive().facts().peer.empty());
  if (mapped()) {
    // The memory outlives its source, and so do the bytes.
    ASSERT_EQ(end, JobState::kDone) << job->status().to_string();
    for (uint64_t i = 0; i < kBytes; i += 4095) {
      ASSERT_EQ(static_cast<uint8_t>(memory_->data()[i]), pattern_byte(4, i));
    }
  } else {
    ASSERT_EQ(end, JobState::kFailed);
    EXPECT_EQ(job->status().code(), Code::kPeerLost) << job->status().to_string();
    uint64_t word = 0;
    EXPECT_EQ(connection_->read_words(remote, 0, {&word, 1}, soon()).code(), Code::kPeerLost);
  }
  EXPECT_FALSE(domain_->reach(std::string_view()).reachable);
}

TEST_P(Local, ADeadSourceCannotBeReached) {
  const std::string address = source_->address();
  EXPECT_TRUE(domain_->reach(address).reachable);
  source_->kill();
  EXPECT_FALSE(domain_->reach(address).reachable);
  EXPECT_FALSE(domain_->connect(address, SourceProcess::exchange(source_), soon()).ok());
}

// Reads need nothing of the source but its memory; only the hand-over of a descriptor does.
TEST_P(Local, AStoppedSourceIsReadButAnswersNothing) {
  const auto region = source_->region(GetParam(), 4096, 6);
  const RemoteRegion remote = connection_->import_region(region.key, soon()).value();
  auto fresh = connect().value();
  const RegionId to = target(4096);
  auto job = connection_->prepare({.runs = {{.length = 4096}}}, {{remote}}, {{to}}).value();
  source_->signal(SIGSTOP);
  ASSERT_TRUE(connection_->post(*job).ok());
  EXPECT_EQ(finish(*job), JobState::kDone);
  uint64_t word = 0;
  EXPECT_TRUE(connection_->read_words(remote, 8, {&word, 1}, soon()).ok());
  EXPECT_EQ(word, pattern_word(6, 1));
  const auto late =
      fresh->import_region(region.key, Deadline::after(std::chrono::milliseconds(50)));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.status().code(), Code::kDeadline) << late.status().to_string();
  source_->signal(SIGCONT);
  EXPECT_TRUE(fresh->import_region(region.key, soon()).ok());
}

TEST_P(Local, ADeregisteredRegionIsNotRead) {
  const auto region = source_->region(GetParam(), 1u << 20, 6);
  const RemoteRegion remote = connection_->import_region(region.key, soon()).value();
  const RegionId to = target(1u << 20);
  auto job = connection_->prepare({.runs = {{.length = 1u << 20}}}, {{remote}}, {{to}}).value();
  ASSERT_TRUE(connection_->post(*job).ok());
  ASSERT_EQ(finish(*job), JobState::kDone);
  ASSERT_TRUE(deregister(region).ok());
  // Whatever takes the slot or the address next is not the region.
  const auto next = source_->region(GetParam(), 1u << 20, 7);
  ASSERT_TRUE(connection_->post(*job).ok());
  ASSERT_EQ(finish(*job), JobState::kFailed);
  EXPECT_EQ(job->status().code(), Code::kPeerLost) << job->status().to_string();
  uint64_t word = 0;
  EXPECT_EQ(connection_->read_words(remote, 0, {&word, 1}, soon()).code(), Code::kPeerLost);
  EXPECT_TRUE(connection_->import_region(next.key, soon()).ok());
}

TEST_P(Local, ADeregisteredTargetIsNotWritten) {
  const RemoteRegion remote =
      connection_->import_region(source_->region(GetParam(), 64, 1).key, soon()).value();
  const RegionId to = target(64);
  auto job = connection_->prepare({.runs = {{.length = 64}}}, {{remote}}, {{to}}).value();
  ASSERT_TRUE(domain_->deregister_region(to).ok());
  EXPECT_EQ(connection_->post(*job).code(), Code::kFailedPrecondition);
}

uint64_t entries(const char* path) {
  return static_cast<uint64_t>(std::distance(std::filesystem::directory_iterator(path), {}));
}
uint64_t lines(const char* path) {
  std::ifstream file(path);
  uint64_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

TEST_P(Local, ConnectionsLeakNothing) {
  const auto region = source_->region(GetParam(), 1u << 20, 1);
  const auto cycle = [&] {
    auto connection = connect();
    ASSERT_TRUE(connection.ok()) << connection.status().to_string();
    ASSERT_TRUE((*connection)->import_region(region.key, soon()).ok());
  };
  const auto source_counts = [&] {
    const auto counts = source_->call(Op::kCounts);
    std::string_view rest(counts.value());
    return std::array<uint64_t, 3>{take_word(rest), take_word(rest), take_word(rest)};
  };
  for (int i = 0; i < 10; ++i) cycle();
  const uint64_t fds = entries("/proc/self/fd");
  const uint64_t threads = entries("/proc/self/task");
  const uint64_t mappings = lines("/proc/self/maps");
  const auto source_before = source_counts();
  for (int i = 0; i < 300; ++i) cycle();
  EXPECT_EQ(entries("/proc/self/fd"), fds);
  EXPECT_EQ(entries("/proc/self/task"), threads);
  // The allocator may split its heap once; 300 leaks would show.
  EXPECT_LE(lines("/proc/self/maps"), mappings + 8);
  const auto source_after = source_counts();
  EXPECT_LE(source_after[0], source_before[0] + 1);  // the last connection may still be closing
  EXPECT_EQ(source_after[1], source_before[1]);
  EXPECT_LE(source_after[2], source_before[2] + 8);
}

INSTANTIATE_TEST_SUITE_P(Memory, Local, testing::Values(MemoryKind::kShared, MemoryKind::kHost),
                         [](const auto& info) {
                           return info.param == MemoryKind::kShared ? "Mapped" : "ByProcess";
                         });

void drop_capabilities_of_this_thread() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  ASSERT_EQ(syscall(SYS_capset, &header, none), 0);
}

// Capabilities belong to a thread, and root would be let in anywhere: the reader is a thread
// without any.
TEST(LocalPermission, TheExactReasonIsKnownAtImport) {
  const auto source = SourceProcess::start(TransportKind::kLocal);
  const auto host = source->region(MemoryKind::kHost, 4096, 1);
  const auto shared = source->region(MemoryKind::kShared, 4096, 1);
  std::thread([&] {
    drop_capabilities_of_this_thread();
    const auto domain = make_domain(TransportKind::kLocal, {}).value();
    const auto import = [&](const std::string& key) -> Status {
      auto connection = domain->connect(source->address(), SourceProcess::exchange(source), soon());
      return connection.ok() ? (*connection)->import_region(key, soon()).status()
                             : connection.status();
    };
    if (geteuid() == 0) {
      const Status more = import(host.key);
      EXPECT_EQ(more.code(), Code::kPermission) << more.to_string();
      EXPECT_NE(more.message().find("capabilities that this process lacks"), std::string::npos)
          << more.to_string();
    }
    ASSERT_TRUE(source->call(Op::kDropCapabilities).ok());
    std::string dumpable;
    put_word(dumpable, 1);
    ASSERT_TRUE(source->call(Op::kDumpable, dumpable).ok());
    const Status allowed = import(host.key);
    EXPECT_TRUE(allowed.ok()) << allowed.to_string();

    std::string hidden;
    put_word(hidden, 0);
    ASSERT_TRUE(source->call(Op::kDumpable, hidden).ok());
    const Status refused = import(host.key);
    EXPECT_EQ(refused.code(), Code::kPermission) << refused.to_string();
    EXPECT_EQ(refused.facts().sys_errno, EPERM);
    EXPECT_NE(refused.message().find("PR_SET_DUMPABLE"), std::string::npos) << refused.to_string();
    EXPECT_NE(refused.message().find("shared memory"), std::string::npos) << refused.to_string();
    // Shared memory needs no such permission.
    const Status mapped = import(shared.key);
    EXPECT_TRUE(mapped.ok()) << mapped.to_string();
  }).join();
}

// The descriptor server, talked to by someone who does not keep the rules.
class Hostile : public testing::Test {
 protected:
  void SetUp() override {
    region_ = Allocation::shared(4096, {}).value();
    companion_ = Allocation::shared(4096, {}).value();
    server_ = local::FdServer::start(companion_).value();
  }
  local::MapGrant grant(uint32_t pid = static_cast<uint32_t>(getpid())) {
    return server_->grant(region_, pid).value();
  }
  static uint32_t me() { return static_cast<uint32_t>(getpid()); }
  local::UniqueFd raw_connect(const std::string& name) {
    local::UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const local::SocketName address(name);
    EXPECT_EQ(connect(fd.get(), address.get(), address.size()), 0);
    return fd;
  }
  // What the server says to `bytes`: how much arrives.
  ssize_t say(const std::string& bytes) {
    const local::UniqueFd fd = raw_connect(grant().socket_name);
    // The server may have closed already.
    (void)!send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char byte = 0;
    return recv(fd.get(), &byte, 1, 0);
  }

  std::shared_ptr<Allocation> region_;
  std::shared_ptr<Allocation> companion_;
  std::unique_ptr<local::FdServer> server_;
};

TEST_F(Hostile, AGrantIsGoodOnce) {
  const auto granted = grant();
  ASSERT_TRUE(local::fetch_fds(granted, me(), soon()).ok());
  const auto replayed = local::fetch_fds(granted, me(), soon());
  ASSERT_FALSE(replayed.ok());
  EXPECT_EQ(replayed.status().code(), Code::kUnauthenticated) << replayed.status().to_string();
}

TEST_F(Hostile, AWrongNonceGetsNothing) {
  auto wrong = grant();
  ++wrong.nonce.low;
  EXPECT_EQ(local::fetch_fds(wrong, me(), soon()).status().code(), Code::kUnauthenticated);
  EXPECT_GE(server_->refused(), 1u);
  --wrong.nonce.low;
  EXPECT_TRUE(local::fetch_fds(wrong, me(), soon()).ok()) << "the right one is still good";
}

TEST_F(Hostile, AnotherProcessesNonceGetsNothing) {
  EXPECT_EQ(local::fetch_fds(grant(1), me(), soon()).status().code(), Code::kUnauthenticated);
}

TEST_F(Hostile, AnImpostorsSocketIsNotBelieved) {
  EXPECT_EQ(local::fetch_fds(grant(), 1, soon()).status().code(), Code::kUnauthenticated);
}

TEST_F(Hostile, GarbageIsRefusedAndTheNextReaderServed) {
  for (const size_t size : {0u, 1u, 15u, 17u, 4096u})
    EXPECT_LE(say(std::string(size, 'x')), 0) << size;
  EXPECT_TRUE(local::fetch_fds(grant(), me(), soon()).ok());
}

TEST_F(Hostile, SilentConnectionsDoNotKeepOthersOut) {
  const auto name = grant().socket_name;
  std::vector<local::UniqueFd> silent;
  for (size_t i = 0; i < local::kMaxClients + 20; ++i) silent.push_back(raw_connect(name));
  // Until the server's patience with the silent ones ends.
  const auto fetched = local::fetch_fds(grant(), me(), soon());
  EXPECT_TRUE(fetched.ok()) << fetched.status().to_string();
}

TEST_F(Hostile, TooManyGrantsAreRefused) {
  for (size_t i = 0; i < local::kMaxNonces; ++i) (void)grant(1);
  EXPECT_EQ(server_->grant(region_, 1).status().code(), Code::kBusy);
}

TEST_F(Hostile, UnsealedOrShortMemoryIsNotMapped) {
  local::UniqueFd unsealed(memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  EXPECT_EQ(local::Mapping::map(unsealed, 4096).status().code(), Code::kBadData);
  local::UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(local::Mapping::map(null, 4096).status().code(), Code::kBadData);
  const local::UniqueFd sealed(fcntl(region_->fd(), F_DUPFD_CLOEXEC, 0));
  EXPECT_EQ(local::Mapping::map(sealed, 4097).status().code(), Code::kBadData);
  EXPECT_TRUE(local::Mapping::map(sealed, 4096).ok());
}

}  // namespace
}  // namespace wb::test
