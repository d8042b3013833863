#include "capi/pull_report.h"

namespace wb::capi {

static_assert(WB_MEMORY_UNTOUCHED == static_cast<int>(MemoryState::kUntouched));
static_assert(WB_MEMORY_COMPLETE == static_cast<int>(MemoryState::kComplete));
static_assert(WB_MEMORY_TORN == static_cast<int>(MemoryState::kTorn));
static_assert(WB_STEP_DISCOVER == static_cast<int>(PullStep::kDiscover));
static_assert(WB_STEP_PLAN == static_cast<int>(PullStep::kPlan));
static_assert(WB_STEP_CONNECT == static_cast<int>(PullStep::kConnect));
static_assert(WB_STEP_WAIT == static_cast<int>(PullStep::kWait));
static_assert(WB_STEP_READ == static_cast<int>(PullStep::kRead));
static_assert(WB_STEP_CHECK == static_cast<int>(PullStep::kCheck));
static_assert(WB_STEP_INSTALL == static_cast<int>(PullStep::kInstall));

const wb_pull_report* PullReportView::show() {
  sources_.clear();
  for (const SourceReport& source : report_.sources) {
    sources_.push_back({source.worker.c_str(), source.transport.c_str(), source.mechanism.c_str(),
                        source.reason.c_str(), source.bytes, source.reads});
  }
  timeline_.clear();
  for (const TimelineEntry& entry : report_.timeline) {
    timeline_.push_back({static_cast<wb_pull_step>(entry.step), 0, entry.begin_ns, entry.end_ns});
  }
  finalisers_.clear();
  for (const std::string& name : report_.finalisers) finalisers_.push_back(name.c_str());

  view_ = {};
  view_.struct_size = sizeof view_;
  view_.version = {report_.version.generation, report_.version.number};
  view_.memory = static_cast<wb_memory_state>(report_.memory);
  view_.attempts = report_.attempts;
  view_.torn = report_.torn;
  view_.bytes = report_.bytes;
  view_.reads = report_.reads;
  view_.versions_skipped = report_.versions_skipped;
  view_.read_ns = report_.read_ns;
  view_.total_ns = report_.total_ns;
  view_.sources = sources_.data();
  view_.source_count = sources_.size();
  view_.timeline = timeline_.data();
  view_.timeline_count = timeline_.size();
  view_.finalisers = finalisers_.data();
  view_.finaliser_count = finalisers_.size();
  return &view_;
}

}  // namespace wb::capi
