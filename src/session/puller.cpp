#include "session/puller.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace wb {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Waiting for a version: reads of one header with growing pauses.
constexpr microseconds kPollFirst{50};
constexpr microseconds kPollMost{2000};
// All headers are read again after so many polls of one: another source may have closed meanwhile.
constexpr uint32_t kPollsOfOne = 16;
// Waiting for sources: reads of the store.
constexpr milliseconds kLookUpFirst{20};
constexpr milliseconds kLookUpMost{500};
constexpr milliseconds kCancelCheck{50};
// A transport that cannot even abort within this is broken.
constexpr std::chrono::seconds kAbortWait{10};
// A connection that fails is made again once; the second failure counts as the source's death.
constexpr uint32_t kFailuresAllowed = 1;

// Errors that another look at the store and the members may mend.
bool may_pass(Code code) {
  return code == Code::kPeerLost || code == Code::kUnavailable || code == Code::kDeadline ||
         code == Code::kIo;
}

void pause(std::chrono::nanoseconds span, Deadline deadline) {
  std::this_thread::sleep_until(deadline.capped(span).when());
}

std::string name_version(const Version& version) {
  return "version " + std::to_string(version.number) + " of generation " +
         std::to_string(version.generation);
}

std::string name_want(const Want& want) {
  switch (want.kind) {
    case Want::Kind::kLatest:
      return "a version";
    case Want::Kind::kExactly:
      return "version " + std::to_string(want.number);
    case Want::Kind::kAtLeast:
      return "version " + std::to_string(want.number) + " or a newer one";
  }
  return "a version";
}

}  // namespace

Puller::Puller(SourceSetInputs inputs, const FormationWatch* watch, Log log,
               std::function<bool()> cancelled)
    : sources_(std::move(inputs)),
      watch_(watch),
      log_(std::move(log)),
      cancelled_(std::move(cancelled)) {}

Puller::Next Puller::end(Status status) {
  status_ = std::move(status);
  return Next::kEnd;
}

Status Puller::pull(const Want& want, PullTrace* trace, PullReport* report, Deadline deadline) {
  trace_ = trace;
  report_ = report;
  status_ = Status();
  lost_.clear();
  failures_.clear();
  told_.clear();
  failure_.reset();
  last_failure_ = Status();
  newest_seen_.reset();
  if (unsettled_) {
    WB_RETURN_IF_ERROR(settle(deadline).prefixed("reads of an earlier pull have not ended: "));
  }
  Next next = Next::kRediscover;
  while (next != Next::kEnd) {
    if (next == Next::kRediscover) {
      next = find_sources(deadline);
      if (next != Next::kGoOn) continue;
    }
    next = wait_version(want, deadline);
    if (next != Next::kGoOn) continue;
    next = attempt(deadline);
    if (next == Next::kGoOn) return Status();
    // Short attempts may be torn one after the other without ever meeting a wait.
    if (next == Next::kRetry && cancelled_())
      next = end(Status(Code::kCancelled, "the receiver was closed"));
    if (next == Next::kRetry && deadline.expired())
      next = end(Status(Code::kDeadline, "the deadline passed"));
  }
  if (status_.code() == Code::kDeadline && report_->torn != 0) {
    return Status(Code::kStarved,
                  "each of " + std::to_string(report_->torn) +
                      " finished attempts was torn by the next update: let the trainer publish "
                      "snapshots, or leave more time between publish and begin_update");
  }
  return std::move(status_);
}

// ---- Sources ----

Status Puller::wait_formation(Formation* formation, Deadline deadline) {
  while (true) {
    uint64_t serial = 0;
    const auto latest = watch_->latest(&serial);
    if (latest.has_value() && latest->complete()) {
      *formation = *latest;
      serial_ = serial;
      return Status();
    }
    if (cancelled_()) return Status(Code::kCancelled, "the receiver was closed");
    if (deadline.expired()) {
      if (const Status health = watch_->health(); !health.ok())
        return Status(health).prefixed("looking for trainers: ");
      if (!latest.has_value())
        return Status(Code::kDeadline, "no trainer has joined this job until the deadline");
      const auto joined = std::count_if(latest->members.begin(), latest->members.end(),
                                        [](const Digest& member) { return member != Digest(); });
      return Status(Code::kDeadline, "only " + std::to_string(joined) + " of " +
                                         std::to_string(latest->members.size()) +
                                         " trainer ranks have joined until the deadline");
    }
    watch_->wait_change(serial, deadline.capped(kCancelCheck));
  }
}

void Puller::report_missing() {
  for (const MissingPeer& peer : sources_.missing()) {
    if (!told_.try_emplace(peer.incarnation, true).second) continue;
    const std::string name = "trainer-" + std::to_string(peer.rank);
    log_.write(LogLevel::kWarn, "session", "a source is left out of the pull",
               {{"source", name}, {"reason", peer.reason.to_string()}});
    trace_->event(PullEvent::Kind::kSourceLost, name, report_->version);
  }
}

// What took the time, where a deadline says only where it passed.
Status Puller::with_last_failure(Status status) const {
  if (status.code() != Code::kDeadline || last_failure_.ok()) return status;
  return Status(Code::kDeadline, status.message() + "; before that, " + last_failure_.message())
      .with_peer(last_failure_.facts().peer);
}

Puller::Next Puller::find_sources(Deadline deadline) {
  drop_failed();
  milliseconds wait = kLookUpFirst;
  Formation formation;
  Status reason;
  while (true) {
    {
      const StepScope waiting(trace_, PullStep::kWait);
      const Status formed = wait_formation(&formation, deadline);
      if (!formed.ok()) return end(formed);
    }
    StepScope discovery(trace_, PullStep::kDiscover);
    if (lost_.empty() && sources_.current(formation)) break;
    const Status status = sources_.assemble(formation, lost_, trace_, &discovery, deadline);
    discovery.end();
    changed_ = true;
    report_missing();
    if (status.ok()) break;
    if (!may_pass(status.code())) return end(status);
    // A source that failed under our hands is not waited for: the caller decides. A newer
    // formation, though, replaces it.
    const bool newer = watch_->serial() != serial_;
    if (!newer && status.code() == Code::kPeerLost && (!lost_.empty() || !failures_.empty()))
      return end(status);
    // A look that the deadline cut short says less than the one before it.
    if (reason.ok() || status.code() != Code::kDeadline) reason = status;
    if (deadline.expired()) return end(with_last_failure(std::move(reason)));
    if (cancelled_()) return end(Status(Code::kCancelled, "the receiver was closed"));
    watch_->wait_change(serial_, deadline.capped(wait));
    wait = std::min(2 * wait, kLookUpMost);
  }
  formation_ = std::move(formation);
  headers_.clear();
  for (const Lane& lane : sources_.lanes())
    headers_.push_back({lane.link->directory(), lane.expected});
  slots_.assign(headers_.size(), 0);
  return Next::kGoOn;
}

// ---- Versions ----

// Connections are dropped only in find_sources(): reads of other lanes may be in flight here.
Puller::Next Puller::lose(const Lane& lane, Status why, bool for_good) {
  last_failure_ = why;
  failure_ = Failure{lane.link->incarnation(), lane.link->worker(), std::move(why), for_good};
  return Next::kRediscover;
}

void Puller::drop_failed() {
  if (!failure_.has_value()) return;
  Failure failure = *std::exchange(failure_, std::nullopt);
  sources_.drop(failure.incarnation);
  if (failure.for_good || ++failures_[failure.incarnation] > kFailuresAllowed) {
    lost_[failure.incarnation] = std::move(failure.why);
    return;
  }
  log_.write(LogLevel::kWarn, "session", "a connection failed and is made again",
             {{"source", failure.worker}, {"error", failure.why.to_string()}});
}

Puller::Next Puller::lane_error(const Lane& lane, const Status& status, Deadline deadline) {
  const std::string& worker = lane.link->worker();
  if (deadline.expired()) {
    return end(Status(Code::kDeadline, "the deadline passed while " + worker +
                                           " was being read: " + status.message())
                   .with_peer(worker));
  }
  return lose(lane, Status(status).prefixed(worker + " was lost: ").with_peer(worker), false);
}

Puller::Next Puller::read_all_headers(Deadline deadline) {
  for (const Lane& lane : sources_.lanes()) {
    const Status status = lane.link->read_directory(deadline);
    if (!status.ok()) return lane_error(lane, status, deadline);
    if (is_closed(lane.link->directory().header(0))) {
      return lose(lane, Status(Code::kPeerLost, lane.link->worker() + " was closed by its owner"),
                  true);
    }
  }
  return Next::kGoOn;
}

Lane& Puller::laggard() {
  const auto newest = [](const Lane& lane) {
    std::optional<Version> best;
    const DirectoryView directory = lane.link->directory();
    for (uint32_t slot = 0; slot < directory.slots(); ++slot)
      best = std::max(best, held_version(directory.header(slot), lane.expected));
    return best;
  };
  const auto lanes = sources_.lanes();
  return *std::min_element(lanes.begin(), lanes.end(),
                           [&](const Lane& a, const Lane& b) { return newest(a) < newest(b); });
}

Puller::Next Puller::poll_laggard(const Lane& lane, Deadline deadline, bool* changed) {
  const auto words = lane.link->directory().words;
  before_.assign(words.begin(), words.end());
  const Status status = lane.link->read_directory(deadline);
  if (!status.ok()) return lane_error(lane, status, deadline);
  *changed = !std::equal(before_.begin(), before_.end(), words.begin());
  return Next::kGoOn;
}

bool Puller::newer_generation() {
  if (watch_->serial() == serial_) return false;
  const auto latest = watch_->latest(&serial_);
  return latest.has_value() && !latest->same_set(formation_);
}

Puller::Next Puller::wait_version(const Want& want, Deadline deadline) {
  const StepScope step(trace_, PullStep::kWait);
  microseconds wait = kPollFirst;
  while (true) {
    const Next read = read_all_headers(deadline);
    if (read != Next::kGoOn) return read;
    const VersionChoice choice = choose_version(want, headers_, slots_);
    if (choice.newest_seen.has_value()) newest_seen_ = choice.newest_seen;
    if (choice.found) {
      report_->version = choice.version;
      const auto lanes = sources_.lanes();
      for (size_t i = 0; i < lanes.size(); ++i) {
        lanes[i].slot = slots_[i];
        lanes[i].first = headers_[i].directory.header(slots_[i]);
      }
      return Next::kGoOn;
    }
    const Lane& slowest = laggard();
    bool changed = false;
    for (uint32_t polls = 0; polls < kPollsOfOne && !changed; ++polls) {
      if (cancelled_()) return end(Status(Code::kCancelled, "the receiver was closed"));
      if (deadline.expired()) return end_by_deadline(want);
      if (newer_generation()) return Next::kRediscover;
      for (const Lane& lane : sources_.lanes()) {
        const Status alive = lane.link->alive();
        if (!alive.ok()) return lane_error(lane, alive, deadline);
      }
      pause(wait, deadline);
      wait = std::min(2 * wait, kPollMost);
      const Next polled = poll_laggard(slowest, deadline, &changed);
      if (polled != Next::kGoOn) return polled;
    }
    if (changed) wait = kPollFirst;
  }
}

Puller::Next Puller::end_by_deadline(const Want& want) {
  std::string sentence = name_want(want) + " did not come until the deadline; ";
  if (newest_seen_.has_value()) {
    const Lane& slowest = laggard();
    sentence += "the newest seen is " + name_version(*newest_seen_);
    const auto held = held_version(slowest.link->directory().header(0), slowest.expected);
    if (held != newest_seen_) sentence += " (" + slowest.link->worker() + " is behind)";
  } else {
    sentence += "no source holds a finished version";
  }
  return end(Status(Code::kDeadline, std::move(sentence)));
}

// ---- Data ----

Status Puller::settle(Deadline deadline) {
  Status first;
  unsettled_ = false;
  for (Lane& lane : sources_.lanes()) {
    // Local copies advance only when polled: aborting them is free. Elsewhere an abort costs the
    // connection, so reads that are in flight are let arrive as long as there is time.
    if (lane.link->transport() != TransportKind::kLocal) {
      while (lane.link->active() && lane.link->poll() == JobState::kActive && !deadline.expired() &&
             !cancelled_()) {
        std::this_thread::yield();
      }
    }
    Status status = lane.link->abort(Deadline::after(kAbortWait));
    if (status.ok()) continue;
    unsettled_ = true;
    log_.write(LogLevel::kError, "session", "reads could not be ended; the memory may still change",
               {{"source", lane.link->worker()}, {"error", status.to_string()}});
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Puller::Next Puller::check_lane(Lane* lane, Deadline deadline) {
  HeaderWords second;
  const Status status = lane->link->read_header(lane->slot, &second, deadline);
  if (!status.ok()) return lane_error(*lane, status, deadline);
  lane->checked = true;
  if (unchanged(lane->first, second)) return Next::kGoOn;
  ++report_->torn;
  trace_->event(PullEvent::Kind::kTorn, lane->link->worker(), report_->version);
  return Next::kRetry;
}

Puller::Next Puller::poll_lanes(StepScope* reading, std::optional<StepScope>* checking,
                                Deadline deadline) {
  const auto lanes = sources_.lanes();
  size_t unfinished = lanes.size();
  while (unfinished != 0) {
    bool advanced = false;
    for (Lane& lane : lanes) {
      if (lane.checked) continue;
      const JobState state = lane.link->poll();
      const uint64_t seen = lane.link->bytes_done();
      advanced = advanced || seen != lane.seen || state != JobState::kActive;
      lane.seen = seen;
      if (!lane.begun && (seen != 0 || state == JobState::kDone)) {
        lane.begun = true;
        trace_->event(PullEvent::Kind::kFirstBytes, lane.link->worker(), report_->version);
      }
      if (state == JobState::kActive) continue;
      if (state != JobState::kDone) return lane_error(lane, lane.link->failure(), deadline);
      // Each source is checked as soon as its data is there, which keeps the time short in which
      // an update tears it. Only the last check is a step of its own.
      if (--unfinished == 0) {
        data_end_ns_ = trace_->now_ns();
        reading->end();
        checking->emplace(trace_, PullStep::kCheck);
      }
      const Next checked = check_lane(&lane, deadline);
      if (checked != Next::kGoOn) return checked;
    }
    if (unfinished == 0) break;
    if (cancelled_()) return end(Status(Code::kCancelled, "the receiver was closed"));
    if (deadline.expired())
      return end(Status(Code::kDeadline, "the deadline passed while the weights were being read"));
    if (!advanced) std::this_thread::yield();
  }
  return Next::kGoOn;
}

Puller::Next Puller::attempt(Deadline deadline) {
  StepScope reading(trace_, PullStep::kRead);
  std::optional<StepScope> checking;
  const uint64_t begun_ns = trace_->now_ns();
  ++report_->attempts;
  Next next = Next::kGoOn;
  for (Lane& lane : sources_.lanes()) {
    lane.seen = 0;
    lane.begun = false;
    lane.checked = false;
    if (next != Next::kGoOn) continue;
    report_->memory = MemoryState::kTorn;
    const Status status = lane.link->post(lane.slot);
    if (!status.ok()) next = lane_error(lane, status, deadline);
  }
  if (next == Next::kGoOn) next = poll_lanes(&reading, &checking, deadline);
  if (next == Next::kGoOn) {
    report_->read_ns = data_end_ns_ - begun_ns;
    return next;
  }
  const Status settled = settle(deadline);
  return settled.ok() ? next : end(settled);
}

Status Puller::close(Deadline deadline) {
  if (unsettled_) WB_RETURN_IF_ERROR(settle(deadline));
  sources_.clear();
  return Status();
}

}  // namespace wb
