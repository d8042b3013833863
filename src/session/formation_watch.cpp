#include "session/formation_watch.h"

#include <algorithm>
#include <utility>

#include "base/cancel.h"
#include "base/thread.h"

namespace wb {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kInterval{100};    // how long stop() may wait for a quiet watch
constexpr milliseconds kStoreCall{2000};  // one read of the record
constexpr milliseconds kRetryFirst{50};
constexpr milliseconds kRetryMost{1000};

}  // namespace

FormationWatch::FormationWatch(std::shared_ptr<StoreClient> store, std::string job, Log log)
    : store_(std::move(store)), job_(std::move(job)), log_(std::move(log)) {}

Result<std::unique_ptr<FormationWatch>> FormationWatch::start(std::shared_ptr<StoreClient> store,
                                                              std::string job, Log log) {
  std::unique_ptr<FormationWatch> watch(
      new FormationWatch(std::move(store), std::move(job), std::move(log)));
  WB_ASSIGN_OR_RETURN(watch->thread_, start_thread("follow the set of trainers",
                                                   [raw = watch.get()] { raw->run(); }));
  return watch;
}

FormationWatch::~FormationWatch() { stop(); }

void FormationWatch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::optional<Formation> FormationWatch::latest(uint64_t* serial) const {
  const std::lock_guard lock(mutex_);
  if (serial != nullptr) *serial = serial_.load(std::memory_order_relaxed);
  return latest_;
}

Status FormationWatch::health() const {
  const std::lock_guard lock(mutex_);
  return health_;
}

bool FormationWatch::wait_change(uint64_t known, Deadline deadline) const {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.when(), [&] { return stopping_ || serial() != known; });
  return serial() != known;
}

void FormationWatch::take(const Formation& formation) {
  latest_ = formation;
  serial_.fetch_add(1, std::memory_order_release);
  changed_.notify_all();
}

void FormationWatch::offer(const Formation& formation) {
  const std::lock_guard lock(mutex_);
  if (!latest_.has_value() || latest_->revision < formation.revision) take(formation);
}

Status FormationWatch::refresh() {
  auto formation = read_formation(*store_, job_, Deadline::after(kStoreCall));
  if (formation.ok()) {
    const std::lock_guard lock(mutex_);
    const bool newer = !latest_.has_value() || latest_->revision < formation->revision;
    if (newer || (store_was_away_ && !latest_->same_set(*formation))) {
      take(*formation);
    } else if (store_was_away_) {
      // A store that was lost counts its revisions from the start: what comes next is newer than
      // this.
      latest_->revision = formation->revision;
    }
    store_was_away_ = false;
    return Status();
  }
  // No trainer has joined yet: the store is well.
  if (formation.status().code() == Code::kNotFound) return Status();
  return formation.status();
}

void FormationWatch::set_health(Status status) {
  const std::lock_guard lock(mutex_);
  if (!status.ok()) store_was_away_ = true;
  health_ = std::move(status);
}

bool FormationWatch::pause(milliseconds span) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, span, [&] { return stopping_.load(); });
}

Status FormationWatch::react(const std::vector<WatchEvent>& events) {
  bool formed = false, received = false;
  for (const WatchEvent& event : events) {
    formed = formed || event.item.key == formation_key(job_);
    received = received || event.item.key.starts_with(receiver_prefix(job_));
  }
  if (received) receivers_.fetch_add(1, std::memory_order_release);
  return formed ? refresh() : Status();
}

// One life of a watch: ends with the error that ended it, or with ok when it must be made anew or
// the object stops.
Status FormationWatch::follow() {
  // The watch is made before the record is read, so that no change falls between the two.
  WB_ASSIGN_OR_RETURN(auto watch, store_->watch(job_prefix(job_), 0, Deadline::after(kStoreCall)));
  receivers_.fetch_add(1, std::memory_order_release);
  WB_RETURN_IF_ERROR(refresh());
  set_health(Status());
  while (!stopping_) {
    const auto events = watch->next(Deadline::after(kInterval));
    if (events.ok()) {
      WB_RETURN_IF_ERROR(react(*events));
      continue;
    }
    if (events.status().code() == Code::kDeadline) continue;
    if (events.status().code() == Code::kMismatch) return Status();  // compacted
    return events.status();
  }
  return Status();
}

void FormationWatch::run() {
  const CancelScope scope(&stopping_);
  milliseconds retry = kRetryFirst;
  while (!stopping_) {
    const auto begun = Deadline::Clock::now();
    const Status status = follow();
    if (stopping_) return;
    if (status.ok()) continue;
    if (health().ok()) {
      log_.write(LogLevel::kWarn, "session",
                 "the store does not answer; a new set of trainer ranks would not be noticed",
                 {{"error", status.to_string()}});
    }
    set_health(status);
    if (Deadline::Clock::now() - begun > kRetryMost) retry = kRetryFirst;
    if (!pause(retry)) return;
    retry = std::min(2 * retry, kRetryMost);
  }
}

}  // namespace wb
