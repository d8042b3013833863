// One pull: from "which sources" to "exactly one version in every byte". Holds the sources between
// pulls; one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "session/formation_watch.h"
#include "session/pull_trace.h"
#include "session/receiver.h"
#include "session/source_set.h"
#include "session/version_choice.h"

namespace wb {

class Puller {
 public:
  // `watch` and what `inputs` borrows outlive it. `cancelled` is asked often during waits.
  Puller(SourceSetInputs inputs, const FormationWatch* watch, Log log,
         std::function<bool()> cancelled);

  // Fills version, attempts, torn, read_ns and memory (kTorn once reads were posted) of *report. On
  // success every byte of the plan is of report->version. Every posted read has ended when it
  // returns; if a transport cannot promise that, later pulls and close() try again before anything
  // else.
  Status pull(const Want& want, PullTrace* trace, PullReport* report, Deadline deadline);

  // Null before the first plan.
  const std::shared_ptr<const ProvedPlan>& plan() const { return sources_.plan(); }
  // Reads that could not be ended may still write.
  bool unsettled() const { return unsettled_; }
  // True once after each change of the sources or connections.
  bool connected_changed() { return std::exchange(changed_, false); }
  std::span<const Lane> lanes() { return sources_.lanes(); }
  const std::vector<MissingPeer>& missing() const { return sources_.missing(); }
  // Ends all connections; kDeadline and others when reads are still in flight.
  Status close(Deadline deadline);

 private:
  // How a step of the pull ended.
  enum class Next {
    kGoOn,
    kRetry,       // the attempt was torn: wait for a version again
    kRediscover,  // other sources, or connections, than before
    kEnd,         // status_ says why
  };
  // A source whose connection is void.
  struct Failure {
    Digest incarnation;
    std::string worker;
    Status why;
    bool for_good = false;  // not only the connection: the source itself
  };

  Next find_sources(Deadline deadline);
  Status with_last_failure(Status status) const;
  Status wait_formation(Formation* formation, Deadline deadline);
  Next wait_version(const Want& want, Deadline deadline);
  Next read_all_headers(Deadline deadline);
  Next poll_laggard(const Lane& lane, Deadline deadline, bool* changed);
  bool newer_generation();
  Lane& laggard();
  Next attempt(Deadline deadline);
  Next poll_lanes(StepScope* reading, std::optional<StepScope>* checking, Deadline deadline);
  Next check_lane(Lane* lane, Deadline deadline);
  Next lane_error(const Lane& lane, const Status& status, Deadline deadline);
  Next lose(const Lane& lane, Status why, bool for_good);
  void drop_failed();
  void report_missing();
  Next end(Status status);
  Next end_by_deadline(const Want& want);
  // Brings every active job to its end.
  Status settle(Deadline deadline);

  SourceSet sources_;
  const FormationWatch* const watch_;
  const Log log_;
  const std::function<bool()> cancelled_;
  bool unsettled_ = false;  // a job may still write: nothing else may be posted
  bool changed_ = false;
  std::vector<SourceHeaders> headers_;  // parallel to the lanes
  std::vector<uint32_t> slots_;
  std::vector<uint64_t> before_;  // scratch of poll_laggard
  Formation formation_;           // that the lanes belong to
  uint64_t serial_ = 0;           // of the watch, when formation_ was last confirmed

  // Of the current pull.
  PullTrace* trace_ = nullptr;
  PullReport* report_ = nullptr;
  Status status_;
  SourceSet::Lost lost_;
  std::map<Digest, uint32_t> failures_;  // of connections
  std::map<Digest, bool> told_;          // kSourceLost events
  std::optional<Failure> failure_;
  Status last_failure_;  // of this pull
  uint64_t data_end_ns_ = 0;
  std::optional<Version> newest_seen_;
};

}  // namespace wb
