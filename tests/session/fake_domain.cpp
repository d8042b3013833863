#include "fake_domain.h"

#include <algorithm>
#include <random>

#include "base/checked.h"
#include "base/racy_copy.h"

namespace wb {
namespace {

struct Chunk {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  uint64_t bytes = 0;
};

}  // namespace

std::shared_ptr<Allocation> FakeNet::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto it = exported_.find(key);
  return it == exported_.end() ? nullptr : it->second;
}

class FakeJob final : public ReadJob {
 public:
  FakeJob(FakeNet* net, std::vector<Chunk> chunks)
      : net_(net), chunks_(std::move(chunks)), random_(net->next_seed()) {}
  ~FakeJob() override { leave(JobState::kIdle); }

  JobState state() const override { return state_; }
  Status status() const override { return status_; }
  uint64_t bytes_done() const override { return done_; }

  void post() {
    std::shuffle(chunks_.begin(), chunks_.end(), random_);
    next_ = 0;
    done_ = 0;
    status_ = Status();
    state_ = JobState::kActive;
    ++net_->active_jobs;
  }

  void advance() {
    uint64_t budget = 1 + random_() % net_->chunks_per_poll.load();
    while (state_ == JobState::kActive && budget-- != 0) {
      if (next_ == chunks_.size()) return leave(JobState::kDone);
      if (net_->fail_after_chunks.load() >= 0 && net_->fail_after_chunks.fetch_sub(1) == 0) {
        net_->fail_after_chunks = 0;
        ++net_->failures;
        status_ = Status(Code::kPeerLost, "the fake wire was cut");
        return leave(JobState::kFailed);
      }
      const Chunk& chunk = chunks_[next_++];
      racy_copy(chunk.to, chunk.from, chunk.bytes);
      done_ += chunk.bytes;
    }
  }

  void leave(JobState state) {
    if (state_ == JobState::kActive) --net_->active_jobs;
    state_ = state;
  }

 private:
  FakeNet* const net_;
  std::vector<Chunk> chunks_;
  std::mt19937_64 random_;
  size_t next_ = 0;
  uint64_t done_ = 0;
  JobState state_ = JobState::kIdle;
  Status status_;
};

class FakeDomain final : public Domain {
 public:
  explicit FakeDomain(FakeNet* net) : net_(net) {}

  TransportKind kind() const override { return TransportKind::kFake; }
  Result<RegionId> register_region(std::shared_ptr<Allocation> memory, Access) override {
    if (net_->refuse_register) return Status(Code::kNoMemory, "the fake device is full");
    const std::lock_guard lock(net_->mutex_);
    const auto id = static_cast<RegionId>(regions_.size());
    const std::string key = "key-" + std::to_string(net_->next_key_++);
    regions_.push_back({std::move(memory), key});
    net_->exported_[key] = regions_.back().memory;
    ++net_->regions;
    return id;
  }
  Status deregister_region(RegionId region) override {
    const std::lock_guard lock(net_->mutex_);
    if (region >= regions_.size() || regions_[region].memory == nullptr)
      return Status(Code::kInvalidArgument, "no such region");
    net_->exported_.erase(regions_[region].key);
    regions_[region].memory = nullptr;
    --net_->regions;
    return Status();
  }
  Result<std::string> export_key(RegionId region) override {
    const std::lock_guard lock(net_->mutex_);
    return regions_.at(region).key;
  }
  std::string address() const override { return "fake"; }
  Reach reach(std::string_view peer) const override {
    if (peer == "fake") return {true, "same process"};
    return {false, "not a fake address"};
  }
  Result<std::unique_ptr<Connection>> connect(std::string_view peer,
                                              std::unique_ptr<Exchange> exchange,
                                              Deadline deadline) override;
  Result<std::string> handle_exchange(std::string_view payload) override {
    return "echo " + std::string(payload);
  }
  bool needs_source_progress() const override { return net_->needs_progress; }
  void progress() override { ++net_->progress_calls; }

  FakeNet* net() const { return net_; }
  std::shared_ptr<Allocation> memory(RegionId region) const {
    const std::lock_guard lock(net_->mutex_);
    return region < regions_.size() ? regions_[region].memory : nullptr;
  }

 private:
  struct Region {
    std::shared_ptr<Allocation> memory;
    std::string key;
  };
  FakeNet* const net_;
  std::vector<Region> regions_;
};

class FakeConnection final : public Connection {
 public:
  explicit FakeConnection(FakeDomain* domain) : domain_(domain), net_(domain->net()) {}

  Result<RemoteRegion> import_region(std::string_view key, Deadline) override {
    keys_.emplace_back(key);
    auto memory = net_->find(keys_.back());
    if (memory == nullptr) return Status(Code::kPeerLost, "the key is not registered any more");
    imported_.push_back(std::move(memory));
    return static_cast<RemoteRegion>(imported_.size() - 1);
  }

  Result<std::unique_ptr<ReadJob>> prepare(const ReadList& list,
                                           std::span<const RemoteRegion> remote,
                                           std::span<const RegionId> local) override {
    const uint64_t most = net_->chunk_bytes;
    std::vector<Chunk> chunks;
    for (const Run& run : list.runs) {
      const auto& from = imported_.at(remote[run.remote_region]);
      const auto to = domain_->memory(local[run.local_region]);
      for (uint64_t row = 0; row < run.count; ++row) {
        const uint64_t remote_at =
            run.remote_offset + static_cast<uint64_t>(static_cast<int64_t>(row) * run.remote_pitch);
        const uint64_t local_at =
            run.local_offset + static_cast<uint64_t>(static_cast<int64_t>(row) * run.local_pitch);
        if (!range_inside(remote_at, run.length, from->bytes()) ||
            !range_inside(local_at, run.length, to->bytes()))
          return Status(Code::kInvalidArgument, "a run is outside its region");
        for (uint64_t at = 0; at < run.length; at += most) {
          chunks.push_back({to->data() + local_at + at, from->data() + remote_at + at,
                            std::min(most, run.length - at)});
        }
      }
    }
    return std::unique_ptr<ReadJob>(std::make_unique<FakeJob>(net_, std::move(chunks)));
  }

  Status post(ReadJob& job) override {
    if (const Status status = alive(); !status.ok()) return status;
    if (job.state() == JobState::kActive)
      return Status(Code::kFailedPrecondition, "the job is active");
    static_cast<FakeJob&>(job).post();
    return Status();
  }
  JobState poll(ReadJob& job) override {
    auto& fake = static_cast<FakeJob&>(job);
    if (fake.state() == JobState::kActive) fake.advance();
    return fake.state();
  }
  Status abort(ReadJob& job, Deadline) override {
    if (net_->refuse_abort) return Status(Code::kDeadline, "the fake device does not flush");
    auto& fake = static_cast<FakeJob&>(job);
    if (fake.state() == JobState::kActive) fake.leave(JobState::kFailed);
    return Status();
  }

  Status read_words(RemoteRegion region, uint64_t offset, std::span<uint64_t> words,
                    Deadline) override {
    if (const Status status = alive(); !status.ok()) return status;
    std::atomic_thread_fence(std::memory_order_acquire);
    auto* const from = reinterpret_cast<uint64_t*>(imported_.at(region)->data() + offset);
    for (size_t i = 0; i < words.size(); ++i)
      words[i] = __atomic_load_n(from + i, __ATOMIC_ACQUIRE);
    return Status();
  }

  Status alive() override {
    for (const std::string& key : keys_)
      if (net_->find(key) == nullptr) return Status(Code::kPeerLost, "its memory is gone");
    return Status();
  }
  std::string mechanism() const override { return "fake wire"; }

 private:
  FakeDomain* const domain_;
  FakeNet* const net_;
  std::vector<std::string> keys_;
  std::vector<std::shared_ptr<Allocation>> imported_;
};

Result<std::unique_ptr<Connection>> FakeDomain::connect(std::string_view peer,
                                                        std::unique_ptr<Exchange> exchange,
                                                        Deadline deadline) {
  if (net_->refuse_connect) return Status(Code::kUnavailable, "the fake wire is unplugged");
  if (!reach(peer).reachable) return Status(Code::kUnsupported, "not a fake address");
  WB_ASSIGN_OR_RETURN(const std::string answer, exchange->call("hello", deadline));
  if (answer != "echo hello") return Status(Code::kBadData, "another answer than was expected");
  ++net_->connections;
  return std::unique_ptr<Connection>(std::make_unique<FakeConnection>(this));
}

std::unique_ptr<Domain> FakeNet::make_domain() { return std::make_unique<FakeDomain>(this); }

}  // namespace wb
