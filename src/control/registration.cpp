#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/cancel.h"
#include "base/thread.h"
#include "control/membership.h"
#include "control/worker_record.h"

namespace wb {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kMaxTtl = 3600;
// One call of the thread.
constexpr milliseconds kCallLimit{2000};

// The key and its lease, as the keeping thread knows them. One thread at a time.
class LeasedKey {
 public:
  LeasedKey(std::shared_ptr<StoreClient> store, std::string key, std::string value, int64_t ttl)
      : store_(std::move(store)), key_(std::move(key)), value_(std::move(value)), ttl_(ttl) {}

  // Takes the key from whoever has it: a restarted worker replaces the one that died before the
  // dead one's lease has ended.
  Status take(Deadline deadline) {
    WB_ASSIGN_OR_RETURN(lease_, store_->lease_grant(ttl_, deadline));
    WB_ASSIGN_OR_RETURN(revision_, store_->put(key_, value_, lease_, deadline));
    return Status();
  }

  // Ok: the key is there and is ours for another ttl.
  Status keep(Deadline deadline) {
    const Status lease = lease_ == 0 ? Status(Code::kNotFound, "no lease")
                                     : store_->lease_keep_alive(lease_, deadline).status();
    if (lease.code() == Code::kNotFound) {
      lease_ = 0;
      WB_ASSIGN_OR_RETURN(lease_, store_->lease_grant(ttl_, deadline));
    } else if (!lease.ok()) {
      return lease;
    }
    WB_ASSIGN_OR_RETURN(const auto item, store_->get(key_, deadline));
    if (item && item->mod_revision == revision_ && item->lease == lease_) return Status();
    // Ours under a lease that has ended, or put by a call whose answer was lost.
    const bool ours = !item || item->value == value_;
    if (!ours) {
      // A later incarnation of the same worker. Taking it back would hide the living one.
      return Status(Code::kBusy, key_ + " is held by another incarnation of this worker");
    }
    return put_back(item ? item->mod_revision : 0, deadline);
  }

  Status withdraw(Deadline deadline) {
    if (lease_ == 0) return Status();
    const Status status = store_->lease_revoke(lease_, deadline);
    // The key goes with its lease; a key that another incarnation took has another lease.
    return status.code() == Code::kNotFound ? Status() : status;
  }

 private:
  Status put_back(int64_t seen_revision, Deadline deadline) {
    WB_ASSIGN_OR_RETURN(const TxnResult result,
                        store_->txn({{key_, seen_revision}},
                                    {{TxnOp::Kind::kPut, key_, value_, lease_}}, deadline));
    if (!result.succeeded) {
      return Status(Code::kUnavailable, key_ + " changed while it was put back");
    }
    revision_ = result.revision;
    return Status();
  }

  const std::shared_ptr<StoreClient> store_;
  const std::string key_;
  const std::string value_;
  const int64_t ttl_;
  int64_t lease_ = 0;
  int64_t revision_ = 0;
};

class Keeper final : public Registration {
 public:
  Keeper(std::shared_ptr<StoreClient> store, std::string key, std::string value, int64_t ttl)
      : ttl_(ttl), leased_(std::move(store), std::move(key), std::move(value), ttl) {}

  // The lease ends by itself: no network here, and the thread's call in progress is cancelled.
  ~Keeper() override {
    stop();
    if (thread_.joinable()) thread_.join();
  }

  Status start(Deadline deadline) {
    WB_RETURN_IF_ERROR(leased_.take(deadline));
    last_kept_ = Deadline::Clock::now();
    WB_ASSIGN_OR_RETURN(thread_, start_thread("keep a lease", [this] { run(); }));
    return Status();
  }

  Status healthy() const override {
    const std::lock_guard lock(mutex_);
    if (stopping_) return Status(Code::kCancelled, "the registration is closed");
    if (!status_.ok()) return status_;
    if (Deadline::Clock::now() - last_kept_ > std::chrono::seconds(ttl_)) {
      return Status(Code::kUnavailable, "the lease was not renewed in time");
    }
    return Status();
  }

  Status close(Deadline deadline) override {
    stop();
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_until(lock, deadline.when(), [this] { return ended_; })) {
        return Status(Code::kDeadline,
                      "closing a registration: its thread still waits for the store");
      }
    }
    if (closed_) return Status();
    WB_RETURN_IF_ERROR(leased_.withdraw(deadline));
    closed_ = true;
    return Status();
  }

 private:
  void stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    cancelled_ = true;
    changed_.notify_all();
  }

  // Three tries fit into the life of a lease.
  milliseconds period() const { return milliseconds(ttl_ * 1000 / 3); }

  void run() {
    const CancelScope scope(&cancelled_);
    std::unique_lock lock(mutex_);
    milliseconds wait = period();
    while (!changed_.wait_for(lock, wait, [this] { return stopping_; })) {
      lock.unlock();
      const Status status = leased_.keep(Deadline::after(std::min(period(), kCallLimit)));
      lock.lock();
      status_ = status;
      if (status.ok()) last_kept_ = Deadline::Clock::now();
      wait = status.ok() ? period() : std::max(period() / 4, milliseconds(100));
    }
    ended_ = true;
    changed_.notify_all();
  }

  const int64_t ttl_;
  LeasedKey leased_;  // of the thread; of close() once the thread has ended
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Status status_;
  Deadline::Clock::time_point last_kept_;
  bool stopping_ = false;
  std::atomic<bool> cancelled_ = false;  // ends the thread's call in progress
  bool ended_ = false;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Registration>> Registration::start(std::shared_ptr<StoreClient> store,
                                                          std::string key,
                                                          const WorkerRecord& record,
                                                          int64_t ttl_seconds, Deadline deadline) {
  if (store == nullptr || key.empty() || record.worker.empty() || record.endpoint.empty()) {
    return Status(Code::kInvalidArgument,
                  "a registration needs a store, a key, a name, an endpoint");
  }
  if (ttl_seconds < 1 || ttl_seconds > kMaxTtl) {
    return Status(Code::kInvalidArgument, "a registration's time to live is 1 to 3600 s");
  }
  auto keeper = std::make_unique<Keeper>(std::move(store), std::move(key), format_worker(record),
                                         ttl_seconds);
  WB_RETURN_IF_ERROR(keeper->start(deadline));
  return std::unique_ptr<Registration>(std::move(keeper));
}

}  // namespace wb
