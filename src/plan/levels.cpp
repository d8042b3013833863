#include "plan/levels.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "plan/max_flow.h"

namespace wb {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

// Tasks with the nodes left to them.
struct Part {
  std::vector<uint32_t> tasks;
  std::vector<uint32_t> nodes;
};

class Connected {
 public:
  Connected(const FlowProblem& problem, FlowDivision* division)
      : problem_(problem),
        division_(*division),
        owner_(problem.nodes.size(), kNobody),
        local_(problem.nodes.size()) {}

  void divide(Part whole) {
    first_share_ = division_.shares.size();
    find_levels(whole);
    if (!equal_speeds(whole)) respect_whole_bytes(whole);
  }

 private:
  const FlowProblem::Node& node(uint32_t n) const { return problem_.nodes[n]; }

  bool equal_speeds(const Part& part) const {
    return std::all_of(part.nodes.begin(), part.nodes.end(),
                       [&](uint32_t n) { return node(n).speed == node(part.nodes.front()).speed; });
  }

  TaskGraph graph_of(const Part& part, uint32_t id) {
    TaskGraph graph;
    graph.nodes = static_cast<uint32_t>(part.nodes.size());
    for (uint32_t i = 0; i < graph.nodes; ++i) {
      owner_[part.nodes[i]] = id;
      local_[part.nodes[i]] = i;
    }
    for (const uint32_t t : part.tasks) {
      graph.amount.push_back(problem_.amounts[t]);
      for (const uint32_t n : problem_.options_of(t)) {
        if (owner_[n] == id) graph.node.push_back(local_[n]);
      }
      graph.begin.push_back(static_cast<uint32_t>(graph.node.size()));
    }
    return graph;
  }

  Ratio mean(const Part& part) const {
    Ratio mean{0, 0};
    for (const uint32_t t : part.tasks) mean.bytes += problem_.amounts[t];
    for (const uint32_t n : part.nodes) {
      mean.bytes += node(n).base;
      mean.speed += node(n).speed;
    }
    return mean;
  }

  // Gives every node of a part the mean time of the part. What does not fit belongs to tasks that
  // have only nodes which must be busier than that: these tasks and nodes are one new part, the
  // rest another, and no byte of the one would gain by moving to the other.
  void find_levels(const Part& whole) {
    std::vector<Part> parts = {whole};
    for (uint32_t id = 0; !parts.empty(); ++id) {
      const Part part = std::move(parts.back());
      parts.pop_back();
      const Ratio level = mean(part);
      std::vector<uint64_t> room;
      std::vector<bool> overfull;
      for (const uint32_t n : part.nodes) {
        const uint64_t limit = level.ceil_at(node(n).speed);
        overfull.push_back(node(n).base > limit);
        room.push_back(overfull.back() ? 0 : limit - node(n).base);
      }
      const TaskGraph graph = graph_of(part, id);
      MaxFlow flow(graph);
      const bool placed = flow.run(room);
      if (placed && std::find(overfull.begin(), overfull.end(), true) == overfull.end()) {
        for (const uint32_t n : part.nodes) division_.level[n] = level;
        keep(part, graph, flow.flow());
        continue;
      }
      Part busier, rest;
      for (uint32_t i = 0; i < part.tasks.size(); ++i) {
        (!placed && flow.task_short(i) ? busier : rest).tasks.push_back(part.tasks[i]);
      }
      for (uint32_t i = 0; i < part.nodes.size(); ++i) {
        const bool is_busier = overfull[i] || (!placed && flow.node_short(i));
        (is_busier ? busier : rest).nodes.push_back(part.nodes[i]);
      }
      parts.push_back(std::move(rest));
      parts.push_back(std::move(busier));
    }
  }

  void keep(const Part& part, const TaskGraph& graph, std::span<const uint64_t> flow) {
    for (uint32_t i = 0; i < graph.tasks(); ++i) {
      for (uint32_t e = graph.begin[i]; e < graph.begin[i + 1]; ++e) {
        if (flow[e] == 0) continue;
        division_.shares.push_back({part.tasks[i], part.nodes[graph.node[e]], flow[e]});
      }
    }
  }

  // Levels are times at which bytes could be split. A slow node may not take its part of a byte, so
  // with unequal speeds the least time of whole bytes can be longer than the largest level, and
  // rounding up can exceed it: find it, and divide again within it where that happened. Rounding
  // put less than one byte too much on each node, so with room for that many beyond the levels the
  // way from this division to one of the least time is open.
  void respect_whole_bytes(const Part& whole) {
    const TaskGraph graph = graph_of(whole, kNobody - 1);
    MaxFlow flow(graph);
    const Ratio least = least_time(whole, graph, &flow);
    if (!(least < longest(whole))) return;
    std::vector<uint64_t> room;
    for (const uint32_t n : whole.nodes) {
      const uint64_t level = division_.level[n].ceil_at(node(n).speed) + graph.nodes;
      room.push_back(std::min(least.floor_at(node(n).speed), level) - node(n).base);
    }
    flow.run(room);
    division_.shares.resize(first_share_);
    keep(whole, graph, flow.flow());
  }

  Ratio longest(const Part& whole) const {
    std::vector<uint64_t> load(problem_.nodes.size());
    for (size_t i = first_share_; i < division_.shares.size(); ++i) {
      load[division_.shares[i].node] += division_.shares[i].amount;
    }
    Ratio longest;
    for (const uint32_t n : whole.nodes) {
      longest = std::max(longest, Ratio{load[n] + node(n).base, node(n).speed});
    }
    return longest;
  }

  // Newton's method over cuts: a time that is too short for some tasks and all their nodes is
  // raised to the shortest that suffices for these.
  Ratio least_time(const Part& whole, const TaskGraph& graph, MaxFlow* flow) const {
    Ratio time = mean(whole);
    for (const uint32_t n : whole.nodes) {
      time = std::max(time, Ratio{node(n).base, node(n).speed});
    }
    while (true) {
      std::vector<uint64_t> room;
      for (const uint32_t n : whole.nodes) {
        room.push_back(time.floor_at(node(n).speed) - node(n).base);
      }
      if (flow->run(room)) return time;
      uint64_t bytes = 0;
      for (uint32_t i = 0; i < graph.tasks(); ++i) {
        if (flow->task_short(i)) bytes += graph.amount[i];
      }
      std::vector<uint32_t> nodes;
      for (uint32_t i = 0; i < graph.nodes; ++i) {
        if (flow->node_short(i)) nodes.push_back(whole.nodes[i]);
      }
      time = time_for(bytes, nodes);
    }
  }

  // The shortest time in which these nodes together take that many whole bytes beyond their bases.
  Ratio time_for(uint64_t bytes, std::span<const uint32_t> nodes) const {
    Ratio time{bytes, 0};
    for (const uint32_t n : nodes) {
      time.bytes += node(n).base;
      time.speed += node(n).speed;
    }
    const uint64_t wanted = time.bytes;
    // The next byte of each node, soonest first.
    using Next = std::pair<Ratio, uint32_t>;
    const auto later = [](const Next& a, const Next& b) { return b.first < a.first; };
    std::priority_queue<Next, std::vector<Next>, decltype(later)> next(later);
    uint64_t taken = 0;
    for (const uint32_t n : nodes) {
      const uint64_t whole_bytes = std::max(time.floor_at(node(n).speed), node(n).base);
      taken += whole_bytes;
      next.push({Ratio{whole_bytes + 1, node(n).speed}, n});
    }
    for (; taken < wanted; ++taken) {
      Next soonest = next.top();
      next.pop();
      time = soonest.first;
      ++soonest.first.bytes;
      next.push(soonest);
    }
    return time;
  }

  const FlowProblem& problem_;
  FlowDivision& division_;
  std::vector<uint32_t> owner_;  // by node: the part that last had it
  std::vector<uint32_t> local_;  // by node: its number in that part
  size_t first_share_ = 0;
};

}  // namespace

void divide_connected(const FlowProblem& problem, std::span<const uint32_t> tasks,
                      std::span<const uint32_t> nodes, FlowDivision* division) {
  Connected(problem, division).divide({{tasks.begin(), tasks.end()}, {nodes.begin(), nodes.end()}});
}

}  // namespace wb
