// Connections, registrations and domains of the verbs transport from beginning to end: what is
// negotiated, what strangers may say, what is left over.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "memory/page_nodes.h"
#include "transport/verbs/numa.h"
#include "transport/verbs/wire.h"
#include "verbs_world.h"

namespace wb::test {
namespace {

fake::Script by_poll() { return {.seed = 5, .chunk = 1024, .steps_per_poll = 8}; }

Result<std::unique_ptr<Connection>> connect_saying(VerbsWorld* world,
                                                   DirectExchange::Change request,
                                                   DirectExchange::Change answer) {
  return world->reader->connect(
      world->source->address(),
      std::make_unique<DirectExchange>(world->source.get(), std::move(request), std::move(answer)),
      in_time());
}

TEST(VerbsConnect, ReadDepthIsTheLeastOfBothSidesAndTheOption) {
  struct Case {
    int reader, source;
    uint8_t option;
    int takes;  // what the reader's device makes of it in silence
    int expected;
  };
  for (const Case& one : std::initializer_list<Case>{{16, 16, 128, 0, 16},
                                                     {128, 16, 128, 0, 16},
                                                     {16, 128, 128, 0, 16},
                                                     {128, 128, 128, 0, 128},
                                                     {128, 128, 40, 0, 40},
                                                     {16, 16, 128, 4, 4}}) {
    fake::Fabric fabric(by_poll());
    auto source_nic = fake::connectx(7, "a", "10.0.0.1");
    auto reader_nic = fake::connectx(7, "b", "10.0.0.2");
    source_nic.read_depth = one.source;
    reader_nic.read_depth = one.reader;
    reader_nic.takes_depth = one.takes;
    fabric.add_host({source_nic});
    fabric.add_host({reader_nic});
    DomainOptions options;
    options.verbs.read_depth = one.option;
    const auto source = fake::make_domain(fabric, 0, options).value();
    const auto reader = fake::make_domain(fabric, 1, options).value();
    const auto connection = reader->connect(
        source->address(), std::make_unique<DirectExchange>(source.get()), in_time());
    ASSERT_TRUE(connection.ok()) << connection.status().to_string();
    EXPECT_NE((*connection)->mechanism().find("read depth " + std::to_string(one.expected) + ")"),
              std::string::npos)
        << (*connection)->mechanism() << " instead of " << one.expected;
  }
}

TEST(VerbsConnect, MachinesWithDifferentNumbersOfNicsMeet) {
  fake::Fabric fabric(by_poll());
  fabric.add_host({fake::connectx(7, "a0", "10.0.0.1")});
  fabric.add_host({fake::connectx(7, "b0", "10.0.0.2"), fake::connectx(7, "b1", "10.0.0.3")});
  const auto source = fake::make_domain(fabric, 0, {}).value();
  const auto reader = fake::make_domain(fabric, 1, {}).value();
  EXPECT_TRUE(reader->reach(source->address()).reachable);
  EXPECT_TRUE(
      reader->connect(source->address(), std::make_unique<DirectExchange>(source.get()), in_time())
          .ok());
}

TEST(VerbsConnect, AnotherNetworkIsNotReached) {
  VerbsWorld one(by_poll());
  VerbsWorld other(by_poll());
  const Reach reach = one.reader->reach(other.source->address());
  EXPECT_FALSE(reach.reachable);
  EXPECT_FALSE(reach.reason.empty());
  EXPECT_FALSE(one.reader
                   ->connect(other.source->address(),
                             std::make_unique<DirectExchange>(other.source.get()), in_time())
                   .ok());
}

TEST(VerbsConnect, AnotherLifeOfTheSourceIsAMismatch) {
  VerbsWorld world(by_poll());
  const Memory old = world.source_memory(4096, 1);
  const std::string address = world.source->address();
  world.source.reset();
  world.source = fake::make_domain(*world.fabric, 0, {}).value();
  const auto connected = world.reader->connect(
      address, std::make_unique<DirectExchange>(world.source.get()), in_time());
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.status().code(), Code::kMismatch) << connected.status().to_string();
  world.connect();
  EXPECT_EQ(world.connection->import_region(old.key, in_time()).status().code(), Code::kMismatch);
}

TEST(VerbsConnect, AnExchangeThatFailsIsPassedOn) {
  class Deaf : public Exchange {
    Result<std::string> call(std::string_view, Deadline) override {
      return Status(Code::kUnauthenticated, "wrong token");
    }
  };
  VerbsWorld world(by_poll());
  const auto connected =
      world.reader->connect(world.source->address(), std::make_unique<Deaf>(), in_time());
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(connected.status().code(), Code::kUnauthenticated);
}

TEST(VerbsHandshake, TruncatedMessagesAreBadData) {
  VerbsWorld world(by_poll(), 2);
  const fake::Live before = world.fabric->live();
  std::string request;
  std::string answer;
  const auto keep = [](std::string* to) {
    return [to](std::string said) {
      *to = said;
      return said;
    };
  };
  ASSERT_TRUE(connect_saying(&world, keep(&request), keep(&answer)).ok());
  for (size_t cut = 0; cut < request.size(); ++cut) {
    EXPECT_EQ(world.source->handle_exchange(request.substr(0, cut)).status().code(),
              Code::kBadData);
  }
  EXPECT_EQ(world.source->handle_exchange(request + "x").status().code(), Code::kBadData);
  for (size_t cut = 0; cut < answer.size(); cut += 3) {
    const auto connected =
        connect_saying(&world, {}, [cut](const std::string& said) { return said.substr(0, cut); });
    ASSERT_FALSE(connected.ok());
    EXPECT_EQ(connected.status().code(), Code::kBadData) << connected.status().to_string();
  }
  world.source.reset();
  world.reader.reset();
  fake::Live after = world.fabric->live();
  EXPECT_EQ(after.qps, 0u);
  EXPECT_EQ(after.contexts, 0u);
  EXPECT_EQ(before.contexts, 4u);
}

// Whatever a peer says: an error or a connection, and nothing left over.
TEST(VerbsHandshake, GarbledMessagesDoNoHarm) {
  VerbsWorld world(by_poll(), 2);
  std::mt19937_64 random(17);
  const auto garble = [&random](std::string said) {
    for (uint64_t i = 0, n = 1 + random() % 4; i < n && !said.empty(); ++i) {
      said[random() % said.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) said.resize(random() % (said.size() + 8));
    return said;
  };
  for (int i = 0; i < 600; ++i) {
    if (i % 2 == 0) {
      (void)connect_saying(&world, garble, {});
    } else {
      (void)connect_saying(&world, {}, garble);
    }
  }
  const Memory from = world.source_memory(10000, 3);
  const std::string address = world.source->address();
  world.connect();
  for (int i = 0; i < 3000; ++i) {
    (void)world.connection->import_region(garble(from.key), Deadline::after({}));
    (void)world.reader->reach(garble(address));
  }
  // The source is as good as before.
  world.connect();
  const Memory to = world.target_memory(10000);
  const auto job = world.whole(from, to);
  ASSERT_EQ(world.run(job.get()), JobState::kDone) << job->status().to_string();
  expect_pattern(to, 3);
}

TEST(VerbsLife, HundredsOfConnectionsLeaveNothing) {
  VerbsWorld world(by_poll(), 2);
  const Memory from = world.source_memory(20000, 3);
  const Memory to = world.target_memory(20000);
  fake::Live first;
  for (int i = 0; i < 300; ++i) {
    world.connection.reset();
    world.connect();
    const auto job = world.whole(from, to);
    ASSERT_EQ(world.run(job.get()), JobState::kDone);
    // The next request names the connection that ended: the source never has more than one.
    EXPECT_LE(world.source_domain().readers(), 1u);
    if (i == 0) first = world.fabric->live();
  }
  EXPECT_EQ(world.fabric->live(), first);
}

TEST(VerbsLife, HundredsOfRegistrationsLeaveNothing) {
  VerbsOptions options;
  options.max_slice = 1u << 20;
  VerbsWorld world(by_poll(), 2, options);
  const auto memory = Allocation::host(3u << 20, {}).value();
  const fake::Live first = world.fabric->live();
  for (int i = 0; i < 300; ++i) {
    const RegionId readable = world.source->register_region(memory, Access::kRemoteRead).value();
    const RegionId target = world.reader->register_region(memory, Access::kLocalTarget).value();
    EXPECT_EQ(world.fabric->live().regions, first.regions + 12);
    ASSERT_TRUE(world.source->deregister_region(readable).ok());
    ASSERT_TRUE(world.reader->deregister_region(target).ok());
    EXPECT_EQ(world.source->deregister_region(readable).code(), Code::kNotFound);
  }
  EXPECT_EQ(world.fabric->live(), first);
  EXPECT_EQ(memory.use_count(), 1);
}

TEST(VerbsLife, EverythingIsClosedWithTheDomains) {
  VerbsWorld world(by_poll(), 3);
  const Memory from = world.source_memory(20000, 3);
  const Memory to = world.target_memory(20000);
  world.connect();
  auto job = world.whole(from, to);
  ASSERT_EQ(world.run(job.get()), JobState::kDone);
  // In an unkind order: domains first.
  world.source.reset();
  world.reader.reset();
  EXPECT_FALSE(world.connection->alive().ok() && world.run(job.get()) == JobState::kDone);
  job.reset();
  world.connection.reset();
  EXPECT_EQ(world.fabric->live(), fake::Live());
}

TEST(VerbsLife, ReadersThatVanishAreForgotten) {
  VerbsOptions options;
  options.probe_ms = 10;
  fake::Script script = by_poll();
  script.engine = fake::Engine::kThread;
  VerbsWorld world(script, 2, options);
  world.connect();
  const Memory from = world.source_memory(20000, 3);
  const Memory to = world.target_memory(20000);
  auto job = world.whole(from, to);
  // A reader that is there stays, through many probes.
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_EQ(world.run(job.get()), JobState::kDone) << job->status().to_string();
    ASSERT_EQ(world.source_domain().readers(), 1u);
  }
  job.reset();
  world.connection.reset();
  const Deadline deadline = in_time();
  while (world.source_domain().readers() != 0 && !deadline.expired()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(world.source_domain().readers(), 0u);
}

// A reader joins its ends when it has the grant; one that is slow must not be probed before.
TEST(VerbsLife, AReaderThatJoinsSlowlyIsNotProbed) {
  constexpr auto kInterval = std::chrono::milliseconds(400);
  VerbsOptions options;
  options.probe_ms = static_cast<uint32_t>(kInterval.count());
  fake::Script script = by_poll();
  script.engine = fake::Engine::kThread;
  VerbsWorld world(script, 2, options);
  const Memory from = world.source_memory(20000, 3);
  const Memory to = world.target_memory(20000);
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    auto slowly = std::make_unique<DirectExchange>(world.source.get(), DirectExchange::Change(),
                                                   [&](std::string answer) {
                                                     std::this_thread::sleep_for(kInterval * 3 / 4);
                                                     return answer;
                                                   });
    auto made = world.reader->connect(world.source->address(), std::move(slowly), in_time());
    const bool in_an_interval = std::chrono::steady_clock::now() - begin < kInterval;
    if (!in_an_interval) continue;  // a machine that stood still says nothing
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    world.connection = std::move(*made);
    const auto job = world.whole(from, to);
    EXPECT_EQ(world.run(job.get()), JobState::kDone) << job->status().to_string();
    EXPECT_EQ(world.connection->mechanism().find("failed"), std::string::npos);
  }
}

TEST(VerbsRegions, WhatTheDeviceRefusesIsUndoneAndNamed) {
  VerbsOptions options;
  options.max_slice = 1u << 20;
  VerbsWorld world(by_poll(), 2, options);
  const auto memory = Allocation::host(3u << 20, {}).value();
  const fake::Live before = world.fabric->live();
  world.fabric->refuse_regions(0, "nic1", ENOMEM);
  const auto refused = world.source->register_region(memory, Access::kRemoteRead);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kNoMemory);
  EXPECT_EQ(refused.status().facts().sys_errno, ENOMEM);
  EXPECT_NE(refused.status().message().find("ulimit -l"), std::string::npos);
  EXPECT_EQ(world.fabric->live(), before);
  world.fabric->refuse_regions(0, "nic1", 0);
  EXPECT_TRUE(world.source->register_region(memory, Access::kRemoteRead).ok());
}

TEST(VerbsRegions, ADeviceThatHoldsFewRegistrationsSaysSo) {
  fake::Fabric fabric(by_poll());
  auto nic = fake::connectx(5, "a", "10.0.0.1");
  nic.regions = 4;
  nic.region_bytes = 1u << 20;
  fabric.add_host({nic});
  const auto domain = fake::make_domain(fabric, 0, {}).value();
  const auto refused =
      domain->register_region(Allocation::host(8u << 20, {}).value(), Access::kRemoteRead);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kNoMemory);
  EXPECT_NE(refused.status().message().find("max_mr"), std::string::npos);
}

TEST(VerbsDevices, NoDeviceAndNoAddressAreReasons) {
  fake::Fabric fabric(by_poll());
  fabric.add_host({});
  auto without = fake::connectx(7, "b0", "10.0.0.1");
  without.gids.clear();
  fabric.add_host({without, fake::connectx(7, "b1", "10.0.0.2")});
  const auto none = fake::make_domain(fabric, 0, {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::kUnsupported);
  // A port that cannot be used is left out, unless it is named.
  const auto other = fake::make_domain(fabric, 1, {});
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  DomainOptions named;
  named.verbs.devices = {"b0"};
  EXPECT_EQ(fake::make_domain(fabric, 1, named).status().code(), Code::kNotFound);
}

TEST(VerbsDevices, ChoicesAreReportedWithTheirReasons) {
  std::vector<std::string> chosen;
  DomainOptions options;
  options.log = Log(LogLevel::kInfo, [&chosen](const LogRecord& record) {
    for (const LogField& field : record.fields) {
      if (field.key == "chosen") chosen.push_back(field.value);
    }
  });
  fake::Fabric fabric(by_poll());
  fabric.add_host({fake::connectx(7, "a", "10.0.0.1")});
  const auto domain = fake::make_domain(fabric, 0, options);
  ASSERT_TRUE(domain.ok());
  std::string all;
  for (const std::string& one : chosen) all += one + "\n";
  for (const char* word : {"active", "10.0.0.1", "MTU 4096", "read depth", "partition key"}) {
    EXPECT_NE(all.find(word), std::string::npos) << word << " in\n" << all;
  }
}

TEST(VerbsDevices, MemoryFarFromTheNicsIsTold) {
  const NodePages here[] = {{0, 10}, {1, 90}};
  const int on_0[] = {0, 0}, on_1[] = {0, 1}, unknown[] = {0, -1};
  EXPECT_EQ(verbs::far_from_nics(here, on_1), "");
  EXPECT_EQ(verbs::far_from_nics(here, unknown), "");
  EXPECT_EQ(verbs::far_from_nics(here, {}), "");
  EXPECT_EQ(verbs::far_from_nics({}, on_0), "");
  EXPECT_EQ(
      verbs::far_from_nics(here, on_0).rfind("the memory lies on NUMA node 1, the NICs on 0:", 0),
      0u);

  // This machine's memory, and NICs on a node that it does not have.
  std::vector<std::string> said;
  DomainOptions options;
  options.log = Log(LogLevel::kWarn, [&said](const LogRecord& record) {
    if (record.message.find("NUMA") != std::string::npos) said.push_back(record.message);
  });
  fake::Fabric fabric(by_poll());
  fake::NicCaps caps = fake::connectx(7, "a", "10.0.0.1");
  caps.numa_node = 900;
  fabric.add_host({caps});
  const auto domain = fake::make_domain(fabric, 0, options);
  ASSERT_TRUE(domain.ok());
  for (const uint64_t bytes : {uint64_t{4096}, uint64_t{1} << 20}) {
    const std::shared_ptr<Allocation> memory = Allocation::host(bytes, {}).value();
    std::memset(memory->data(), 1, bytes);
    if (!buffer_nodes(memory->data(), bytes).ok()) GTEST_SKIP() << "this kernel tells no nodes";
    ASSERT_TRUE((*domain)->register_region(memory, Access::kRemoteRead).ok());
  }
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("the NICs on 900"), std::string::npos) << said[0];
}

// The whole contract with a NIC that works in a thread of its own, and readers in several.
TEST(VerbsThreads, ReadersOfOneSource) {
  fake::Script script = by_poll();
  script.engine = fake::Engine::kThread;
  script.chunk = 8192;
  VerbsWorld world(script, 2);
  constexpr uint64_t kBytes = 256u << 10;
  const Memory from = world.source_memory(kBytes, 21);
  std::vector<std::thread> readers;
  for (int r = 0; r < 4; ++r) {
    readers.emplace_back([&] {
      const Memory to = world.target_memory(kBytes);
      for (int round = 0; round < 5; ++round) {
        auto connection =
            world.reader->connect(world.source->address(),
                                  std::make_unique<DirectExchange>(world.source.get()), in_time());
        ASSERT_TRUE(connection.ok()) << connection.status().to_string();
        const auto remote = (*connection)->import_region(from.key, in_time());
        ASSERT_TRUE(remote.ok()) << remote.status().to_string();
        const auto job =
            (*connection)->prepare({.runs = {{.length = kBytes}}}, {{*remote}}, {{to.id}}).value();
        ASSERT_TRUE((*connection)->post(*job).ok());
        while ((*connection)->poll(*job) == JobState::kActive) std::this_thread::yield();
        ASSERT_EQ(job->state(), JobState::kDone) << job->status().to_string();
        for (uint64_t i = 0; i < kBytes; i += 97) ASSERT_EQ(to.at(i), pattern_byte(21, i));
      }
    });
  }
  for (auto& reader : readers) reader.join();
}

}  // namespace
}  // namespace wb::test
