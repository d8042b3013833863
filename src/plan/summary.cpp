#include "plan/summary.h"

#include <algorithm>

namespace wb {

std::vector<EdgeSummary> summarize(const Plan& plan) {
  std::vector<EdgeSummary> edges;
  edges.reserve(plan.lists.size());
  for (const ReadList& list : plan.lists) {
    EdgeSummary edge{list.source, list.bytes, list.runs.size(), list.reads, 0, 0};
    if (!list.runs.empty()) edge.smallest = edge.largest = list.runs.front().length;
    for (const Run& run : list.runs) {
      edge.smallest = std::min(edge.smallest, run.length);
      edge.largest = std::max(edge.largest, run.length);
    }
    edges.push_back(edge);
  }
  return edges;
}

}  // namespace wb
