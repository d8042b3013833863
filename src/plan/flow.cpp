#include "plan/flow.h"

#include <algorithm>
#include <numeric>

#include "plan/forest.h"
#include "plan/levels.h"

namespace wb {
namespace {

// Tasks with the same options are one: what follows is then as large as the number of different
// sets of options, which layouts keep small.
struct Merged {
  FlowProblem problem;
  std::vector<uint32_t> order;  // tasks, those of one merged task together
  std::vector<uint32_t> begin;  // of a merged task in order; one more at the end
};

Merged merge(const FlowProblem& problem) {
  Merged merged;
  merged.problem.nodes = problem.nodes;
  merged.order.resize(problem.tasks());
  std::iota(merged.order.begin(), merged.order.end(), 0u);
  std::stable_sort(merged.order.begin(), merged.order.end(), [&](uint32_t a, uint32_t b) {
    const auto x = problem.options_of(a), y = problem.options_of(b);
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
  });
  for (uint32_t i = 0; i < merged.order.size(); ++i) {
    const uint32_t task = merged.order[i];
    const auto options = problem.options_of(task);
    if (i > 0 && std::ranges::equal(options, problem.options_of(merged.order[i - 1]))) {
      merged.problem.amounts.back() += problem.amounts[task];
      continue;
    }
    merged.begin.push_back(i);
    merged.problem.add(problem.amounts[task], options);
  }
  merged.begin.push_back(problem.tasks());
  return merged;
}

// Nodes that no task connects, directly or not, have nothing to do with each other.
class Components {
 public:
  explicit Components(const FlowProblem& problem) : parent_(problem.nodes.size()) {
    std::iota(parent_.begin(), parent_.end(), 0u);
    for (uint32_t t = 0; t < problem.tasks(); ++t) {
      for (const uint32_t n : problem.options_of(t)) join(problem.options_of(t).front(), n);
    }
  }
  uint32_t find(uint32_t n) {
    while (parent_[n] != n) n = parent_[n] = parent_[parent_[n]];
    return n;
  }

 private:
  void join(uint32_t a, uint32_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }
  std::vector<uint32_t> parent_;
};

// Lays the shares of each merged task over its tasks, one after another.
std::vector<FlowShare> split(const Merged& merged, const FlowProblem& problem,
                             std::span<const FlowShare> shares) {
  std::vector<FlowShare> out;
  out.reserve(shares.size() + problem.tasks());
  size_t next = 0;
  uint64_t left = 0;  // of shares[next - 1]
  for (const uint32_t task : merged.order) {
    for (uint64_t wanted = problem.amounts[task]; wanted > 0;) {
      if (left == 0) left = shares[next++].amount;
      const uint64_t amount = std::min(wanted, left);
      out.push_back({task, shares[next - 1].node, amount});
      wanted -= amount;
      left -= amount;
    }
  }
  std::sort(out.begin(), out.end(), [](const FlowShare& a, const FlowShare& b) {
    return a.task != b.task ? a.task < b.task : a.node < b.node;
  });
  return out;
}

}  // namespace

void FlowProblem::add(uint64_t amount, std::span<const uint32_t> nodes_of_task) {
  amounts.push_back(amount);
  options.insert(options.end(), nodes_of_task.begin(), nodes_of_task.end());
  option_begin.push_back(static_cast<uint32_t>(options.size()));
}

FlowDivision divide(const FlowProblem& problem) {
  Merged merged = merge(problem);
  FlowProblem& work = merged.problem;
  FlowDivision division;
  for (const FlowProblem::Node& node : work.nodes) {
    division.level.push_back({node.base, node.speed});
  }

  // What has one option only is load that its node has anyway.
  Components components(work);
  std::vector<std::vector<uint32_t>> tasks(work.nodes.size()), nodes(work.nodes.size());
  std::vector<FlowShare> fixed;
  for (uint32_t t = 0; t < work.tasks(); ++t) {
    const auto options = work.options_of(t);
    if (options.size() == 1) {
      work.nodes[options[0]].base += work.amounts[t];
      division.level[options[0]].bytes += work.amounts[t];
      fixed.push_back({t, options[0], work.amounts[t]});
    } else {
      tasks[components.find(options[0])].push_back(t);
    }
  }
  for (uint32_t n = 0; n < work.nodes.size(); ++n) nodes[components.find(n)].push_back(n);
  for (uint32_t n = 0; n < work.nodes.size(); ++n) {
    if (!tasks[n].empty()) divide_connected(work, tasks[n], nodes[n], &division);
  }

  std::vector<FlowShare>& shares = division.shares;
  const auto by_task_and_node = [](const FlowShare& a, const FlowShare& b) {
    return a.task != b.task ? a.task < b.task : a.node < b.node;
  };
  std::sort(shares.begin(), shares.end(), by_task_and_node);
  make_forest(work.tasks(), static_cast<uint32_t>(work.nodes.size()), &shares);
  shares.insert(shares.end(), fixed.begin(), fixed.end());
  std::sort(shares.begin(), shares.end(), by_task_and_node);
  shares = split(merged, problem, shares);
  return division;
}

}  // namespace wb
