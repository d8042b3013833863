// A PullReport as the C ABI shows it: plain arrays that point into the report.
#pragma once

#include <vector>

#include "session/receiver.h"
#include "weightbridge/weightbridge.h"

namespace wb::capi {

class PullReportView {
 public:
  PullReportView() = default;
  PullReportView(const PullReportView&) = delete;
  PullReportView& operator=(const PullReportView&) = delete;

  // What the next show() gives to the caller.
  PullReport* report() { return &report_; }
  // Valid until the report is written again. Throws std::bad_alloc.
  const wb_pull_report* show();

 private:
  PullReport report_;
  wb_pull_report view_{};
  std::vector<wb_source_report> sources_;
  std::vector<wb_timeline_entry> timeline_;
  std::vector<const char*> finalisers_;
};

}  // namespace wb::capi
