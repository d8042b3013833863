#include "plan/max_flow.h"

#include <algorithm>

namespace wb {

MaxFlow::MaxFlow(const TaskGraph& graph)
    : graph_(graph),
      task_of_(graph.node.size()),
      node_begin_(graph.nodes + 1),
      node_edges_(graph.node.size()),
      flow_(graph.node.size()),
      left_(graph.tasks()),
      slack_(graph.nodes),
      task_depth_(graph.tasks()),
      node_depth_(graph.nodes),
      task_next_(graph.tasks()),
      node_next_(graph.nodes) {
  for (uint32_t t = 0; t < graph.tasks(); ++t) {
    for (uint32_t e = graph.begin[t]; e < graph.begin[t + 1]; ++e) task_of_[e] = t;
  }
  for (const uint32_t n : graph.node) ++node_begin_[n + 1];
  for (uint32_t n = 0; n < graph.nodes; ++n) node_begin_[n + 1] += node_begin_[n];
  std::vector<uint32_t> at(node_begin_.begin(), node_begin_.end() - 1);
  for (uint32_t e = 0; e < graph.node.size(); ++e) node_edges_[at[graph.node[e]]++] = e;
}

bool MaxFlow::run(std::span<const uint64_t> room) {
  fill(room);
  while (find_depths()) {
    std::copy_n(graph_.begin.begin(), graph_.tasks(), task_next_.begin());
    std::copy_n(node_begin_.begin(), graph_.nodes, node_next_.begin());
    for (uint32_t t = 0; t < graph_.tasks(); ++t) {
      if (left_[t] > 0) augment_from(t);
    }
  }
  return std::all_of(left_.begin(), left_.end(), [](uint64_t left) { return left == 0; });
}

// A good start: tasks with few nodes first, each on the first nodes that have room.
void MaxFlow::fill(std::span<const uint64_t> room) {
  std::copy(room.begin(), room.end(), slack_.begin());
  std::copy(graph_.amount.begin(), graph_.amount.end(), left_.begin());
  std::fill(flow_.begin(), flow_.end(), 0);
  std::vector<uint32_t> order(graph_.tasks());
  for (uint32_t t = 0; t < graph_.tasks(); ++t) order[t] = t;
  const auto width = [&](uint32_t t) { return graph_.begin[t + 1] - graph_.begin[t]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return width(a) < width(b); });
  for (const uint32_t t : order) {
    for (uint32_t e = graph_.begin[t]; e < graph_.begin[t + 1] && left_[t] > 0; ++e) {
      flow_[e] = std::min(left_[t], slack_[graph_.node[e]]);
      left_[t] -= flow_[e];
      slack_[graph_.node[e]] -= flow_[e];
    }
  }
}

// Depths of a breadth-first search from all tasks with something left, whole, so that they tell the
// cut when no node with slack is found.
bool MaxFlow::find_depths() {
  std::fill(task_depth_.begin(), task_depth_.end(), kFar);
  std::fill(node_depth_.begin(), node_depth_.end(), kFar);
  queue_.clear();
  for (uint32_t t = 0; t < graph_.tasks(); ++t) {
    if (left_[t] == 0) continue;
    task_depth_[t] = 0;
    queue_.push_back(t);
  }
  bool found = false;
  for (size_t i = 0; i < queue_.size(); ++i) {
    if (const uint32_t t = queue_[i]; t < graph_.tasks()) {
      for (uint32_t e = graph_.begin[t]; e < graph_.begin[t + 1]; ++e) {
        const uint32_t n = graph_.node[e];
        if (node_depth_[n] != kFar) continue;
        node_depth_[n] = task_depth_[t] + 1;
        found |= slack_[n] > 0;
        queue_.push_back(graph_.tasks() + n);
      }
    } else if (!found) {  // deeper layers are of no use once a node with slack is seen
      const uint32_t n = t - graph_.tasks();
      for (uint32_t i2 = node_begin_[n]; i2 < node_begin_[n + 1]; ++i2) {
        const uint32_t e = node_edges_[i2];
        if (flow_[e] == 0 || task_depth_[task_of_[e]] != kFar) continue;
        task_depth_[task_of_[e]] = node_depth_[n] + 1;
        queue_.push_back(task_of_[e]);
      }
    }
  }
  return found;
}

void MaxFlow::augment_from(uint32_t first) {
  path_.clear();
  while (left_[first] > 0) {
    const uint32_t t = path_.empty() ? first : task_of_[path_.back()];
    if (step_forward(t)) {
      if (path_.size() % 2 == 1) push_along_path(first);
      continue;
    }
    if (path_.empty()) return;
    ++node_next_[graph_.node[path_.back()]];  // that way back leads nowhere
    path_.resize(path_.size() - 2);
  }
}

// Adds an edge to a node with slack, or one to a full node and one from it back to another task.
bool MaxFlow::step_forward(uint32_t t) {
  for (uint32_t& e = task_next_[t]; e < graph_.begin[t + 1]; ++e) {
    const uint32_t n = graph_.node[e];
    if (node_depth_[n] != task_depth_[t] + 1) continue;
    if (slack_[n] > 0) {
      path_.push_back(e);
      return true;
    }
    for (uint32_t& i = node_next_[n]; i < node_begin_[n + 1]; ++i) {
      const uint32_t back = node_edges_[i];
      if (flow_[back] == 0 || task_depth_[task_of_[back]] != node_depth_[n] + 1) continue;
      path_.push_back(e);
      path_.push_back(back);
      return true;
    }
  }
  return false;
}

void MaxFlow::push_along_path(uint32_t first) {
  uint64_t amount = std::min(left_[first], slack_[graph_.node[path_.back()]]);
  for (size_t i = 1; i < path_.size(); i += 2) amount = std::min(amount, flow_[path_[i]]);
  for (size_t i = 0; i < path_.size(); ++i) {
    if (i % 2 == 0) {
      flow_[path_[i]] += amount;
    } else {
      flow_[path_[i]] -= amount;
    }
  }
  left_[first] -= amount;
  slack_[graph_.node[path_.back()]] -= amount;
  path_.clear();
}

}  // namespace wb
