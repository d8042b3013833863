#include "verbs_world.h"

#include <thread>

namespace wb::test {

VerbsWorld::VerbsWorld(const fake::Script& script, size_t rails, const VerbsOptions& options,
                       int generation)
    : fabric(std::make_unique<fake::Fabric>(script)) {
  for (const char* host : {"1", "2"}) {
    std::vector<fake::NicCaps> nics;
    for (size_t i = 0; i < rails; ++i) {
      const std::string name = "nic" + std::to_string(i);
      const std::string address = "10.0." + std::to_string(i) + "." + host;
      nics.push_back(generation == 0 ? fake::soft_roce(name, address)
                                     : fake::connectx(generation, name, address));
    }
    fabric->add_host(std::move(nics));
  }
  DomainOptions domain;
  domain.verbs = options;
  source = fake::make_domain(*fabric, 0, domain).value();
  reader = fake::make_domain(*fabric, 1, domain).value();
}

Memory VerbsWorld::source_memory(uint64_t bytes, uint64_t seed) {
  Memory out;
  out.bytes = Allocation::host(bytes, {}).value();
  fill_pattern(out.data(), bytes, seed);
  out.id = source->register_region(out.bytes, Access::kRemoteRead).value();
  out.key = source->export_key(out.id).value();
  return out;
}

Memory VerbsWorld::target_memory(uint64_t bytes) {
  Memory out;
  out.bytes = Allocation::host(bytes, {}).value();
  std::memset(out.data(), 0xee, bytes);
  out.id = reader->register_region(out.bytes, Access::kLocalTarget).value();
  return out;
}

void VerbsWorld::connect() {
  auto made =
      reader->connect(source->address(), std::make_unique<DirectExchange>(source.get()), in_time());
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  connection = std::move(*made);
}

RemoteRegion VerbsWorld::import(const Memory& memory) {
  auto imported = connection->import_region(memory.key, in_time());
  EXPECT_TRUE(imported.ok()) << imported.status().to_string();
  return imported.ok() ? *imported : 0;
}

std::unique_ptr<ReadJob> VerbsWorld::whole(const Memory& from, const Memory& to) {
  const RemoteRegion remote = import(from);
  return connection->prepare({.runs = {{.length = from.bytes->bytes()}}}, {{remote}}, {{to.id}})
      .value();
}

JobState VerbsWorld::finish(ReadJob* job) {
  const Deadline deadline = in_time();
  while (connection->poll(*job) == JobState::kActive && !deadline.expired()) {
    std::this_thread::yield();
  }
  EXPECT_NE(job->state(), JobState::kActive) << "a job without an end";
  return job->state();
}

JobState VerbsWorld::run(ReadJob* job) {
  const Status posted = connection->post(*job);
  EXPECT_TRUE(posted.ok()) << posted.to_string();
  return finish(job);
}

void expect_pattern(const Memory& to, uint64_t seed) {
  for (uint64_t i = 0; i < to.bytes->bytes(); ++i) {
    ASSERT_EQ(to.at(i), pattern_byte(seed, i)) << "byte " << i;
  }
}

}  // namespace wb::test
