#include "plan/forest.h"

#include <algorithm>

namespace wb {
namespace {

// A forest whose vertices are tasks and nodes and whose edges are shares, as parent pointers. A
// path visits no node twice, so it is at most twice as long as there are nodes.
class Forest {
 public:
  Forest(uint32_t tasks, uint32_t nodes, std::vector<FlowShare>* shares)
      : tasks_(tasks),
        parent_(size_t{tasks} + nodes, kNone),
        edge_(size_t{tasks} + nodes, kNone),
        shares_(*shares) {}

  void insert(uint32_t edge) {
    const uint32_t task = shares_[edge].task;
    const uint32_t node = tasks_ + shares_[edge].node;
    make_root(task);
    path_.clear();
    uint32_t v = node;
    for (; parent_[v] != kNone; v = parent_[v]) path_.push_back(v);
    if (v == task) edge = cancel(edge);
    if (edge != kNone) link(edge);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  void make_root(uint32_t v) {
    uint32_t parent = kNone, edge = kNone;
    while (v != kNone) {
      std::swap(parent_[v], parent);
      std::swap(edge_[v], edge);
      std::swap(v, parent);
    }
  }

  void link(uint32_t edge) {
    const uint32_t task = shares_[edge].task;
    make_root(task);
    parent_[task] = tasks_ + shares_[edge].node;
    edge_[task] = edge;
  }

  uint64_t& amount(uint32_t edge) { return shares_[edge].amount; }

  // `edge` closes a cycle with the path from its node up to its task. Around the cycle, every other
  // edge gives what the ones between take, until one is empty. Returns the edge that is still to be
  // linked, if any: when others of the path run empty, the path is cut there.
  uint32_t cancel(uint32_t edge) {
    uint64_t even = amount(edge), odd = UINT64_MAX;  // path_[0] is next to `edge`: odd
    for (size_t i = 0; i < path_.size(); ++i) {
      uint64_t& least = i % 2 == 0 ? odd : even;
      least = std::min(least, amount(edge_[path_[i]]));
    }
    const bool even_gives = even <= odd;
    const uint64_t moved = std::min(even, odd);
    const auto move = [&](uint32_t e, bool is_even) {
      if (is_even == even_gives) {
        amount(e) -= moved;
      } else {
        amount(e) += moved;
      }
    };
    move(edge, true);
    for (size_t i = 0; i < path_.size(); ++i) move(edge_[path_[i]], i % 2 == 1);
    for (const uint32_t v : path_) {
      if (amount(edge_[v]) == 0) parent_[v] = edge_[v] = kNone;
    }
    return amount(edge) == 0 ? kNone : edge;
  }

  uint32_t tasks_;
  std::vector<uint32_t> parent_;
  std::vector<uint32_t> edge_;  // to the parent
  std::vector<uint32_t> path_;
  std::vector<FlowShare>& shares_;
};

}  // namespace

void make_forest(uint32_t tasks, uint32_t nodes, std::vector<FlowShare>* shares) {
  Forest forest(tasks, nodes, shares);
  for (uint32_t e = 0; e < shares->size(); ++e) forest.insert(e);
  std::erase_if(*shares, [](const FlowShare& share) { return share.amount == 0; });
}

}  // namespace wb
