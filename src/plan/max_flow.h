// Maximum flow from tasks, each with an amount to place, to nodes, each with room for some.
// Dinic's algorithm on the bipartite graph; between a task and its nodes there is no limit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace wb {

// Edges of task t are [begin[t], begin[t + 1]) of `node`.
struct TaskGraph {
  uint32_t nodes = 0;
  std::vector<uint64_t> amount;  // by task; their sum stays below 2^63
  std::vector<uint32_t> begin = {0};
  std::vector<uint32_t> node;  // by edge; no node twice in one task

  uint32_t tasks() const { return static_cast<uint32_t>(amount.size()); }
};

class MaxFlow {
 public:
  explicit MaxFlow(const TaskGraph& graph);  // borrowed

  // Places as much as there is room for. True when every amount is placed in full.
  bool run(std::span<const uint64_t> room);

  // By edge, after run.
  std::span<const uint64_t> flow() const { return flow_; }

  // After run was false: tasks that want more room, and the nodes that they could use it on. All
  // nodes of such a task are among them, and they are full with such tasks alone.
  bool task_short(uint32_t task) const { return task_depth_[task] != kFar; }
  bool node_short(uint32_t node) const { return node_depth_[node] != kFar; }

 private:
  static constexpr uint32_t kFar = UINT32_MAX;

  void fill(std::span<const uint64_t> room);
  bool find_depths();
  void augment_from(uint32_t task);
  bool step_forward(uint32_t task);
  void push_along_path(uint32_t first);

  const TaskGraph& graph_;
  std::vector<uint32_t> task_of_;     // by edge
  std::vector<uint32_t> node_begin_;  // edges by node: [node_begin_[n], node_begin_[n + 1])
  std::vector<uint32_t> node_edges_;
  std::vector<uint64_t> flow_;   // by edge
  std::vector<uint64_t> left_;   // by task
  std::vector<uint64_t> slack_;  // by node
  std::vector<uint32_t> task_depth_;
  std::vector<uint32_t> node_depth_;
  std::vector<uint32_t> task_next_;  // edges not yet tried in this phase
  std::vector<uint32_t> node_next_;
  std::vector<uint32_t> queue_;  // tasks, then nodes shifted by their number
  std::vector<uint32_t> path_;   // edges: to a node, back to a task, to a node, ...
};

}  // namespace wb
