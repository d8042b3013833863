// Follows the job's records from a thread of its own, so that publish() and pull() learn of a new
// set of trainer ranks, and pull() of other receivers, without asking the store.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/deadline.h"
#include "base/status.h"
#include "control/membership.h"
#include "control/store_client.h"
#include "observe/log.h"

namespace wb {

class FormationWatch {
 public:
  static Result<std::unique_ptr<FormationWatch>> start(std::shared_ptr<StoreClient> store,
                                                       std::string job, Log log);
  ~FormationWatch();  // stop()
  FormationWatch(const FormationWatch&) = delete;
  FormationWatch& operator=(const FormationWatch&) = delete;

  // Grows with each record that is taken, 0 before the first: one atomic load. Revisions of the
  // store would not do: one that lost its records gives them out again.
  uint64_t serial() const { return serial_.load(std::memory_order_acquire); }
  // Grows with each receiver that came or went, and when the store was away.
  uint64_t receivers_serial() const { return receivers_.load(std::memory_order_acquire); }
  // With the serial that belongs to it.
  std::optional<Formation> latest(uint64_t* serial = nullptr) const;
  // Why the store could not be asked the last time; ok while it answers.
  Status health() const;
  // Returns when the serial is not `known` any more, or at the deadline (false).
  bool wait_change(uint64_t known, Deadline deadline) const;
  // Takes a record that the caller read itself, so that it is never behind what it knows.
  void offer(const Formation& formation);
  // Ends the thread, and its call to the store: within its polling interval of a tenth of a second.
  void stop();

 private:
  FormationWatch(std::shared_ptr<StoreClient> store, std::string job, Log log);
  void run();
  Status follow();
  Status refresh();
  Status react(const std::vector<WatchEvent>& events);
  void take(const Formation& formation);  // under mutex_
  void set_health(Status status);
  bool pause(std::chrono::milliseconds span);  // false when stopping

  const std::shared_ptr<StoreClient> store_;
  const std::string job_;
  const Log log_;
  std::atomic<uint64_t> serial_ = 0;
  std::atomic<uint64_t> receivers_ = 0;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Formation> latest_;
  // The store was away: it may have come back without its records, with smaller revisions.
  bool store_was_away_ = false;
  Status health_;
  std::thread thread_;
};

}  // namespace wb
