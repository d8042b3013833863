#include "cli/pull_json.h"

#include <nlohmann/json.hpp>

namespace wb::cli {

const char* step_name(PullStep step) {
  switch (step) {
    case PullStep::kDiscover:
      return "discover";
    case PullStep::kPlan:
      return "plan";
    case PullStep::kConnect:
      return "connect";
    case PullStep::kWait:
      return "wait";
    case PullStep::kRead:
      return "read";
    case PullStep::kCheck:
      return "check";
    case PullStep::kInstall:
      return "install";
  }
  return "unknown";
}

nlohmann::json to_json(const PullReport& report) {
  nlohmann::json sources = nlohmann::json::array();
  for (const SourceReport& source : report.sources) {
    sources.push_back({{"worker", source.worker},
                       {"transport", source.transport},
                       {"mechanism", source.mechanism},
                       {"reason", source.reason},
                       {"bytes", source.bytes},
                       {"reads", source.reads}});
  }
  nlohmann::json timeline = nlohmann::json::array();
  for (const TimelineEntry& entry : report.timeline) {
    timeline.push_back(
        {{"step", step_name(entry.step)}, {"begin_ns", entry.begin_ns}, {"end_ns", entry.end_ns}});
  }
  return {{"generation", report.version.generation},
          {"version", report.version.number},
          {"bytes", report.bytes},
          {"reads", report.reads},
          {"attempts", report.attempts},
          {"torn", report.torn},
          {"skipped", report.versions_skipped},
          {"read_ns", report.read_ns},
          {"total_ns", report.total_ns},
          {"sources", std::move(sources)},
          {"timeline", std::move(timeline)},
          {"finalisers", report.finalisers}};
}

}  // namespace wb::cli
