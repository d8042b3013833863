// A transport inside one process whose bytes are copied later than posted, in seeded chunks and in
// a seeded order, so that a source that changes in between really tears the reader. Faults on
// demand.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace wb {

// What all fake domains of one test share: the "wire".
class FakeNet {
 public:
  explicit FakeNet(uint64_t seed) : seed_(seed) {}

  // Domains of one net reach each other.
  std::unique_ptr<Domain> make_domain();

  std::atomic<uint64_t> chunk_bytes = 512;  // largest piece that is copied at once
  std::atomic<uint64_t> chunks_per_poll = 4;
  // Reads fail once so many chunks have been copied in all (faults of the wire), until set again.
  std::atomic<int64_t> fail_after_chunks = -1;
  std::atomic<uint64_t> failures = 0;  // chunks that did fail
  std::atomic<bool> refuse_connect = false;
  std::atomic<bool> refuse_abort = false;
  std::atomic<bool> refuse_register = false;
  std::atomic<int64_t> active_jobs = 0;   // posted and not ended: 0 whenever nobody pulls
  std::atomic<uint64_t> connections = 0;  // made so far
  std::atomic<int64_t> regions = 0;       // registered now
  std::atomic<uint64_t> progress_calls = 0;
  std::atomic<bool> needs_progress = false;

 private:
  friend class FakeDomain;
  friend class FakeConnection;
  friend class FakeJob;
  std::shared_ptr<Allocation> find(const std::string& key);
  uint64_t next_seed() { return seed_.fetch_add(0x9e3779b97f4a7c15ULL); }

  std::atomic<uint64_t> seed_;
  std::atomic<uint64_t> next_key_ = 1;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Allocation>> exported_;
};

}  // namespace wb
