// What every transport promises, with the source in another process.
#include <gtest/gtest.h>

#include <csignal>
#include <numeric>
#include <random>
#include <thread>

#include "source_process.h"
#include "transport/registry.h"

namespace wb::test {
namespace {

struct Way {
  const char* name;
  TransportKind transport;
  MemoryKind memory;
  const char* tls;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

DomainOptions options_of(const Way& way) {
  DomainOptions options;
  if (way.transport == TransportKind::kVerbs) {
    // The other end of the lab's link.
    options.verbs = parse_verbs_options("devices=rxb0+rxb1").value();
  } else {
    options.ucx.tls = way.tls;
  }
  return options;
}

// A reader in this process, a source in another.
class Contract : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    source_ = SourceProcess::start(GetParam().transport, GetParam().tls);
    auto domain = make_domain(GetParam().transport, options_of(GetParam()));
    ASSERT_TRUE(domain.ok()) << domain.status().to_string();
    domain_ = std::move(*domain);
    connect();
  }

  void connect() {
    auto connection =
        domain_->connect(source_->address(), SourceProcess::exchange(source_), soon());
    ASSERT_TRUE(connection.ok()) << connection.status().to_string();
    connection_ = std::move(*connection);
  }

  SourceProcess::Region source_region(uint64_t bytes, uint64_t seed) {
    return source_->region(GetParam().memory, bytes, seed);
  }

  RemoteRegion import(const SourceProcess::Region& region) {
    auto imported = connection_->import_region(region.key, soon());
    EXPECT_TRUE(imported.ok()) << imported.status().to_string();
    return imported.ok() ? *imported : 0;
  }

  struct Target {
    std::shared_ptr<Allocation> memory;
    RegionId id = 0;
    uint8_t at(uint64_t offset) const { return static_cast<uint8_t>(memory->data()[offset]); }
  };
  Target target(uint64_t bytes) {
    auto memory = Allocation::host(bytes, {}).value();
    std::memset(memory->data(), 0xee, bytes);
    const RegionId id = domain_->register_region(memory, Access::kLocalTarget).value();
    return {memory, id};
  }

  JobState run(ReadJob& job, Deadline deadline = soon()) {
    const Status posted = connection_->post(job);
    EXPECT_TRUE(posted.ok()) << posted.to_string();
    while (connection_->poll(job) == JobState::kActive && !deadline.expired()) {
    }
    return job.state();
  }

  std::shared_ptr<SourceProcess> source_;
  std::unique_ptr<Domain> domain_;
  std::unique_ptr<Connection> connection_;
};

TEST_P(Contract, ReadsEveryByteOfOneRun) {
  constexpr uint64_t kBytes = (9u << 20) + 13;  // more than one poll, and no round number
  const auto region = source_region(kBytes, 7);
  const RemoteRegion remote = import(region);
  const Target to = target(kBytes);
  const ReadList list{.runs = {{.length = kBytes}}};
  auto job = connection_->prepare(list, {{remote}}, {{to.id}}).value();
  EXPECT_EQ(job->state(), JobState::kIdle);
  ASSERT_EQ(run(*job), JobState::kDone) << job->status().to_string();
  EXPECT_EQ(job->bytes_done(), kBytes);
  for (uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(to.at(i), pattern_byte(7, i)) << i;
}

// Random strided runs over several regions against a byte-by-byte oracle: every byte that a row
// covers is right, every other byte is untouched.
TEST_P(Contract, ReadsRandomRunsAndTouchesNothingElse) {
  constexpr uint64_t kBytes = 1u << 20;
  const std::vector<uint64_t> seeds = {11, 12, 13};
  std::vector<RemoteRegion> remote;
  for (const uint64_t seed : seeds) remote.push_back(import(source_region(kBytes, seed)));
  std::mt19937_64 random(GetParam().memory == MemoryKind::kShared ? 1 : 2);
  const auto below = [&random](uint64_t n) { return random() % n; };
  for (int round = 0; round < 10; ++round) {
    std::vector<Target> to = {target(kBytes), target(kBytes)};
    std::vector<std::vector<uint8_t>> expected(2, std::vector<uint8_t>(kBytes, 0xee));
    ReadList list;
    // Each run has a strip of a target of its own, so that the order of the reads cannot matter.
    constexpr uint64_t kStrip = 32u << 10;
    for (uint64_t strip = 0; strip < 2 * kBytes / kStrip; ++strip) {
      wb::Run r;
      r.remote_region = static_cast<uint32_t>(below(seeds.size()));
      r.local_region = static_cast<uint32_t>(strip % 2);
      const uint64_t strip_start = strip / 2 * kStrip;
      r.length = below(600);
      const uint64_t local_pitch = r.length + below(40);
      r.count = local_pitch == 0 ? below(3) : below(kStrip / (local_pitch + 1));
      const bool backwards = below(2) == 1 && r.count != 0;
      r.local_pitch = static_cast<int64_t>(local_pitch) * (backwards ? -1 : 1);
      r.local_offset = strip_start + (backwards ? (r.count - 1) * local_pitch : 0);
      const uint64_t remote_pitch = below(kBytes / (r.count + 1) / 2);
      const bool remote_back = below(2) == 1 && r.count != 0;
      r.remote_pitch = static_cast<int64_t>(remote_pitch) * (remote_back ? -1 : 1);
      r.remote_offset = below(kBytes / 4) + (remote_back ? (r.count - 1) * remote_pitch : 0);
      list.runs.push_back(r);
      for (uint64_t row = 0; row < r.count; ++row) {
        for (uint64_t b = 0; b < r.length; ++b) {
          const uint64_t from = r.remote_offset + row * static_cast<uint64_t>(r.remote_pitch) + b;
          const uint64_t at = r.local_offset + row * static_cast<uint64_t>(r.local_pitch) + b;
          expected[r.local_region][at] = pattern_byte(seeds[r.remote_region], from);
        }
      }
    }
    std::shuffle(list.runs.begin(), list.runs.end(), random);
    auto job = connection_->prepare(list, remote, {{to[0].id, to[1].id}});
    ASSERT_TRUE(job.ok()) << job.status().to_string();
    ASSERT_EQ(run(**job), JobState::kDone) << (*job)->status().to_string();
    for (size_t t = 0; t < 2; ++t) {
      for (uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(to[t].at(i), expected[t][i]) << t << " " << i;
      ASSERT_TRUE(domain_->deregister_region(to[t].id).ok());
    }
  }
}

// Rows of all lengths in a job that is larger than any cache: transports may copy those in another
// way. Every byte between the rows is untouched.
TEST_P(Contract, ReadsRunsThatOutgrowTheCaches) {
  constexpr uint64_t kBytes = 24u << 20;
  const RemoteRegion remote = import(source_region(kBytes, 21));
  const Target to = target(kBytes);
  std::vector<uint8_t> expected(kBytes, 0xee);
  std::mt19937_64 random(5);
  ReadList list;
  for (uint64_t at = random() % 64; at < kBytes;) {
    wb::Run r;
    r.length = uint64_t{1} << (random() % 18);
    r.length += random() % r.length;
    const uint64_t pitch = r.length + random() % 100;
    r.count = std::min(1 + random() % 4, (kBytes - at) / pitch);
    if (r.count == 0) break;
    r.local_offset = at;
    r.local_pitch = static_cast<int64_t>(pitch);
    const uint64_t remote_pitch = random() % 200000;
    r.remote_pitch = static_cast<int64_t>(remote_pitch);
    r.remote_offset = random() % (kBytes - r.length - (r.count - 1) * remote_pitch);
    for (uint64_t row = 0; row < r.count; ++row) {
      for (uint64_t b = 0; b < r.length; ++b) {
        expected[at + row * pitch + b] = pattern_byte(21, r.remote_offset + row * remote_pitch + b);
      }
    }
    at += r.count * pitch + random() % 100;
    list.runs.push_back(r);
  }
  std::shuffle(list.runs.begin(), list.runs.end(), random);
  auto job = connection_->prepare(list, {{remote}}, {{to.id}});
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  ASSERT_EQ(run(**job), JobState::kDone) << (*job)->status().to_string();
  EXPECT_GT((*job)->bytes_done(), 16u << 20);
  for (uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(to.at(i), expected[i]) << i;
}

TEST_P(Contract, JobsAreReusedAndSeeNewBytes) {
  const auto region = source_region(4096, 3);
  const RemoteRegion remote = import(region);
  const Target to = target(4096);
  auto job = connection_->prepare({.runs = {{.length = 4096}}}, {{remote}}, {{to.id}}).value();
  for (uint64_t round = 1; round <= 50; ++round) {
    source_->store(region.id, 512, round);
    ASSERT_EQ(run(*job), JobState::kDone);
    uint64_t word = 0;
    std::memcpy(&word, to.memory->data() + 512, 8);
    ASSERT_EQ(word, round);
    ASSERT_EQ(job->bytes_done(), 4096u);
  }
}

TEST_P(Contract, AnEmptyListIsDoneAtOnce) {
  const RemoteRegion remote = import(source_region(64, 1));
  const Target to = target(64);
  for (const ReadList& list :
       {ReadList{}, ReadList{.runs = {{.length = 0}, {.length = 8, .count = 0}}}}) {
    auto job = connection_->prepare(list, {{remote}}, {{to.id}}).value();
    ASSERT_EQ(run(*job), JobState::kDone);
    EXPECT_EQ(job->bytes_done(), 0u);
  }
  EXPECT_EQ(to.at(0), 0xee);
}

TEST_P(Contract, PrepareRefusesWhatIsOutOfBounds) {
  const RemoteRegion remote = import(source_region(4096, 1));
  const Target to = target(4096);
  const std::vector<wb::Run> wrong = {
      {.length = 4097},
      {.remote_offset = 4096, .length = 1},
      {.local_offset = 4096, .length = 1},
      {.remote_offset = UINT64_MAX, .length = 2},
      {.local_offset = UINT64_MAX - 3, .length = 8},
      {.length = 16, .count = 2, .remote_pitch = -1, .local_pitch = 16},
      {.length = 16, .count = 2, .remote_pitch = 16, .local_pitch = -16},
      {.length = 16, .count = UINT64_MAX, .remote_pitch = 0, .local_pitch = 16},
      {.length = 16, .count = UINT64_MAX, .remote_pitch = INT64_MIN, .local_pitch = INT64_MIN},
      {.length = 16, .count = 2, .remote_pitch = 0, .local_pitch = 15},
      {.remote_region = 1, .length = 1},
      {.local_region = 1, .length = 1},
  };
  for (const wb::Run& run : wrong) {
    const auto job = connection_->prepare({.runs = {run}}, {{remote}}, {{to.id}});
    ASSERT_FALSE(job.ok());
    EXPECT_EQ(job.status().code(), Code::kInvalidArgument) << job.status().to_string();
  }
  EXPECT_FALSE(connection_->prepare({}, {{remote + 1}}, {{to.id}}).ok());
  EXPECT_FALSE(connection_->prepare({}, {{remote}}, {{to.id + 1}}).ok());
  // A source region is no place to write to.
  const RegionId readable =
      domain_->register_region(Allocation::host(64, {}).value(), Access::kRemoteRead).value();
  EXPECT_FALSE(connection_->prepare({}, {{remote}}, {{readable}}).ok());
}

TEST_P(Contract, ReadsWordsAndRefusesWrongPlaces) {
  constexpr uint64_t kBytes = 8192;
  const auto region = source_region(kBytes, 5);
  const RemoteRegion remote = import(region);
  std::vector<uint64_t> words(kBytes / 8);
  ASSERT_TRUE(connection_->read_words(remote, 0, words, soon()).ok());
  for (uint64_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], pattern_word(5, i));
  uint64_t one = 0;
  for (uint64_t round = 0; round < 50; ++round) {
    source_->store(region.id, 4096 - 8, round);
    ASSERT_TRUE(connection_->read_words(remote, 4096 - 8, {&one, 1}, soon()).ok());
    ASSERT_EQ(one, round);
  }
  for (const uint64_t offset : {uint64_t{4}, kBytes, kBytes - 4, UINT64_MAX - 7}) {
    EXPECT_EQ(connection_->read_words(remote, offset, {&one, 1}, soon()).code(),
              Code::kInvalidArgument);
  }
  EXPECT_EQ(connection_->read_words(remote, 8, words, soon()).code(), Code::kInvalidArgument);
  EXPECT_EQ(connection_->read_words(remote + 1, 0, {&one, 1}, soon()).code(),
            Code::kInvalidArgument);
}

// A writer stores words of two equal halves, and none a second time, as epochs: a torn word has
// unequal halves, and two reads that are torn alike cannot agree.
TEST_P(Contract, WordsAreReadWhole) {
  const auto region = source_region(512, 5);
  const RemoteRegion remote = import(region);
  std::string request;
  put_word(request, region.id);
  // Where a processor moves the bytes, a word is one that two reads agree on: it must stay a while.
  put_word(request, GetParam().transport == TransportKind::kVerbs ? 1000 : 0);
  ASSERT_TRUE(source_->call(Op::kStartFlipping, request).ok());
  // On a slow machine fewer will do, but never none for long.
  const Deadline enough = soon();
  Deadline idle = soon();
  uint64_t word = 0;
  for (uint64_t i = 0, flipped = 0; flipped < 2000 && (flipped < 200 || !enough.expired()); ++i) {
    const Status status = connection_->read_words(remote, 8 * (i % 64), {&word, 1}, soon());
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_FALSE(idle.expired()) << "the writer does not write";
    // Before the writer has reached the word it holds the pattern.
    if (word == pattern_word(5, i % 64)) continue;
    ASSERT_EQ(word, (word & 0xffffffff) * kTwice);
    ++flipped;
    idle = soon();
  }
}

TEST_P(Contract, PostingTwiceIsRefusedAndAbortEnds) {
  constexpr uint64_t kBytes = 64u << 20;
  const RemoteRegion remote = import(source_region(kBytes, 9));
  const Target to = target(kBytes);
  auto job = connection_->prepare({.runs = {{.length = kBytes}}}, {{remote}}, {{to.id}}).value();
  ASSERT_TRUE(connection_->post(*job).ok());
  EXPECT_EQ(connection_->post(*job).code(), Code::kFailedPrecondition);
  const Status aborted = connection_->abort(*job, soon());
  ASSERT_TRUE(aborted.ok()) << aborted.to_string();
  EXPECT_EQ(job->state(), JobState::kFailed);
  EXPECT_EQ(job->status().code(), Code::kCancelled);
  // Nothing writes here any more.
  std::memset(to.memory->data(), 0x55, kBytes);
  for (int i = 0; i < 100; ++i) connection_->poll(*job);
  for (uint64_t i = 0; i < kBytes; i += 511) ASSERT_EQ(to.at(i), 0x55);
}

TEST_P(Contract, AnotherConnectionsJobIsRefused) {
  const RemoteRegion remote = import(source_region(64, 1));
  const Target to = target(64);
  auto job = connection_->prepare({.runs = {{.length = 64}}}, {{remote}}, {{to.id}}).value();
  auto other = domain_->connect(source_->address(), SourceProcess::exchange(source_), soon());
  ASSERT_TRUE(other.ok());
  EXPECT_EQ((*other)->post(*job).code(), Code::kInvalidArgument);
  EXPECT_EQ((*other)->abort(*job, soon()).code(), Code::kInvalidArgument);
}

TEST_P(Contract, BadKeysAndAddressesAreRefused) {
  const auto region = source_region(4096, 1);
  for (size_t cut = 0; cut < region.key.size(); cut += 3) {
    const auto imported = connection_->import_region(region.key.substr(0, cut), soon());
    ASSERT_FALSE(imported.ok());
    EXPECT_EQ(imported.status().code(), Code::kBadData) << imported.status().to_string();
  }
  EXPECT_FALSE(connection_->import_region(region.key + "x", soon()).ok());
  const std::string address = source_->address();
  for (size_t cut = 0; cut < address.size(); ++cut) {
    const auto text = std::string_view(address).substr(0, cut);
    EXPECT_FALSE(domain_->reach(text).reachable);
    EXPECT_FALSE(domain_->connect(text, SourceProcess::exchange(source_), soon()).ok());
  }
  const Reach reach = domain_->reach(address);
  EXPECT_TRUE(reach.reachable);
  EXPECT_FALSE(reach.reason.empty());
}

TEST_P(Contract, KeysOfAnotherSourceAreRefused) {
  const auto other = SourceProcess::start(GetParam().transport, GetParam().tls);
  const auto region = other->region(GetParam().memory, 4096, 1);
  const auto imported = connection_->import_region(region.key, soon());
  ASSERT_FALSE(imported.ok());
  EXPECT_EQ(imported.status().code(), Code::kMismatch) << imported.status().to_string();
}

TEST_P(Contract, MechanismIsNamed) {
  import(source_region(4096, 1));
  EXPECT_FALSE(connection_->mechanism().empty());
  EXPECT_TRUE(connection_->alive().ok());
  RecordProperty("mechanism", connection_->mechanism());
}

TEST_P(Contract, RegionsComeAndGoWithTheirKeys) {
  const auto region = source_region(4096, 1);
  std::string request;
  put_word(request, region.id);
  ASSERT_TRUE(source_->call(Op::kDeregister, request).ok());
  EXPECT_FALSE(connection_->import_region(region.key, soon()).ok());
  EXPECT_EQ(source_->call(Op::kDeregister, request).status().code(), Code::kNotFound);
  EXPECT_EQ(domain_->deregister_region(12345).code(), Code::kNotFound);
  EXPECT_EQ(domain_->export_key(12345).status().code(), Code::kNotFound);
  EXPECT_EQ(domain_->export_key(target(64).id).status().code(), Code::kInvalidArgument);
}

// Several readers of one source, each with its own thread and connection.
TEST_P(Contract, ManyReadersAtOnce) {
  constexpr uint64_t kBytes = 1u << 20;
  const auto region = source_region(kBytes, 21);
  std::vector<std::thread> readers;
  for (int r = 0; r < 4; ++r) {
    readers.emplace_back([&] {
      for (int round = 0; round < 3; ++round) {
        auto connection =
            domain_->connect(source_->address(), SourceProcess::exchange(source_), soon());
        ASSERT_TRUE(connection.ok()) << connection.status().to_string();
        const auto remote = (*connection)->import_region(region.key, soon());
        ASSERT_TRUE(remote.ok()) << remote.status().to_string();
        const Target to = target(kBytes);
        auto job =
            (*connection)->prepare({.runs = {{.length = kBytes}}}, {{*remote}}, {{to.id}}).value();
        ASSERT_TRUE((*connection)->post(*job).ok());
        while ((*connection)->poll(*job) == JobState::kActive) {
        }
        ASSERT_EQ(job->state(), JobState::kDone) << job->status().to_string();
        for (uint64_t i = 0; i < kBytes; i += 97) ASSERT_EQ(to.at(i), pattern_byte(21, i));
      }
    });
  }
  for (auto& reader : readers) reader.join();
}

INSTANTIATE_TEST_SUITE_P(
    Transports, Contract,
    testing::Values(Way{"LocalShared", TransportKind::kLocal, MemoryKind::kShared, ""},
                    Way{"LocalHost", TransportKind::kLocal, MemoryKind::kHost, ""},
                    Way{"LocalCaller", TransportKind::kLocal, MemoryKind::kCaller, ""},
                    Way{"UcxDefault", TransportKind::kUcx, MemoryKind::kHost, ""},
                    Way{"UcxShared", TransportKind::kUcx, MemoryKind::kShared, ""},
                    Way{"UcxTcp", TransportKind::kUcx, MemoryKind::kHost, "tcp"},
                    // Only in the guest of tools/rdma-lab --net pair --rails 2.
                    Way{"Verbs", TransportKind::kVerbs, MemoryKind::kHost, "devices=rxa0+rxa1"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace wb::test
