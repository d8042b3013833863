// A source and a reader in one process, each with NICs of one fake fabric.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "source_protocol.h"
#include "transport/fake/domain.h"
#include "transport/fake/fabric.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/domain.h"

namespace wb::test {

inline Deadline in_time() { return Deadline::after(std::chrono::seconds(20)); }

// Calls the source's domain directly; may change what is said.
class DirectExchange : public Exchange {
 public:
  using Change = std::function<std::string(std::string)>;
  explicit DirectExchange(Domain* source, Change request = {}, Change answer = {})
      : source_(source), request_(std::move(request)), answer_(std::move(answer)) {}
  Result<std::string> call(std::string_view payload, Deadline) override {
    std::string said(payload);
    if (request_) said = request_(std::move(said));
    auto answer = source_->handle_exchange(said);
    if (!answer.ok() || !answer_) return answer;
    return answer_(std::move(*answer));
  }

 private:
  Domain* source_;
  Change request_;
  Change answer_;
};

struct Memory {
  std::shared_ptr<Allocation> bytes;
  RegionId id = 0;
  std::string key;
  std::byte* data() const { return bytes->data(); }
  uint8_t at(uint64_t offset) const { return static_cast<uint8_t>(bytes->data()[offset]); }
};

class VerbsWorld {
 public:
  explicit VerbsWorld(const fake::Script& script = {}, size_t rails = 1,
                      const VerbsOptions& options = {}, int generation = 7);

  Memory source_memory(uint64_t bytes, uint64_t seed);
  Memory target_memory(uint64_t bytes);
  void connect();
  RemoteRegion import(const Memory& memory);
  verbs::VerbsConnection& link() { return dynamic_cast<verbs::VerbsConnection&>(*connection); }
  verbs::VerbsDomain& source_domain() { return dynamic_cast<verbs::VerbsDomain&>(*source); }
  // A job that reads all of `from` into `to`, which are of one size.
  std::unique_ptr<ReadJob> whole(const Memory& from, const Memory& to);
  // Posts and polls until the end.
  JobState run(ReadJob* job);
  JobState finish(ReadJob* job);

  std::unique_ptr<fake::Fabric> fabric;
  std::unique_ptr<Domain> source;  // host 0
  std::unique_ptr<Domain> reader;  // host 1
  std::unique_ptr<Connection> connection;
};

// Every byte of `to` is the pattern of `seed`.
void expect_pattern(const Memory& to, uint64_t seed);

}  // namespace wb::test
