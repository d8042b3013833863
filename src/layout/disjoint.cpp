#include "layout/disjoint.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

namespace wb {
namespace {

using Group = std::vector<uint32_t>;

// Groups this small are cheaper to compare than to split.
constexpr size_t kSmallGroup = 4;
// Periods tried on one group before it is compared pair by pair.
constexpr size_t kMaxPeriods = 8;

class Search {
 public:
  Search(std::span<const StridedBytes> sets, int64_t* budget) : sets_(sets), budget_(budget) {}

  // A group waits on the stack with nothing known but that its members may meet; a split proves the
  // parts disjoint from each other.
  std::optional<SharedByte> run() {
    Group all(sets_.size());
    std::iota(all.begin(), all.end(), 0U);
    std::vector<Group> stack;
    stack.push_back(std::move(all));
    while (!stack.empty() && *budget_ > 0) {
      Group group = std::move(stack.back());
      stack.pop_back();
      if (group.size() < 2) continue;
      *budget_ -= static_cast<int64_t>(group.size());
      if (group.size() > kSmallGroup && split(group, &stack)) continue;
      if (auto shared = compare(group)) return shared;
    }
    return std::nullopt;
  }

 private:
  bool split(const Group& group, std::vector<Group>* stack) {
    if (push_parts(split_by_address(group), stack)) return true;
    for (const int64_t period : periods(group)) {
      if (push_parts(split_by_period(group, period), stack)) return true;
    }
    return false;
  }

  static bool push_parts(std::vector<Group> parts, std::vector<Group>* stack) {
    if (parts.size() < 2) return false;
    std::move(parts.rbegin(), parts.rend(), std::back_inserter(*stack));
    return true;
  }

  // Connected components of the bounding intervals.
  std::vector<Group> split_by_address(Group group) const {
    sort_by_low(&group);
    std::vector<Group> parts;
    int64_t end = -1;
    for (const uint32_t id : group) {
      if (parts.empty() || sets_[id].low >= end) parts.emplace_back();
      parts.back().push_back(id);
      end = std::max(end, sets_[id].high());
    }
    return parts;
  }

  // The strides of the group, the most common first.
  std::vector<int64_t> periods(const Group& group) const {
    std::map<int64_t, size_t> uses;
    for (const uint32_t id : group) {
      for (int d = 0; d < sets_[id].levels; ++d) {
        ++uses[sets_[id].level[static_cast<size_t>(d)].stride];
      }
    }
    std::vector<std::pair<size_t, int64_t>> ranked;
    ranked.reserve(uses.size());
    for (const auto& [stride, count] : uses) ranked.emplace_back(count, stride);
    std::sort(ranked.rbegin(), ranked.rend());
    if (ranked.size() > kMaxPeriods) ranked.resize(kMaxPeriods);
    std::vector<int64_t> out;
    out.reserve(ranked.size());
    for (const auto& [count, stride] : ranked) out.push_back(stride);
    return out;
  }

  struct Arc {
    int64_t begin;  // in [0, period)
    int64_t end;    // past begin by at most the period
    uint32_t id;
  };

  // Sets whose addresses differ modulo the period have no common byte. Levels that are multiples of
  // the period vanish; what is left of each set is an arc of the circle, and the groups are the
  // connected components of the arcs.
  std::vector<Group> split_by_period(const Group& group, int64_t period) const {
    std::vector<Arc> arcs;
    arcs.reserve(group.size());
    for (const uint32_t id : group) {
      const StridedBytes& set = sets_[id];
      int64_t extent = set.run;
      for (int d = 0; d < set.levels; ++d) {
        const auto& level = set.level[static_cast<size_t>(d)];
        if (level.stride % period != 0) extent += level.stride * level.max;
      }
      if (extent >= period) return {};  // meets all others
      const int64_t begin = set.low % period;
      arcs.push_back({begin, begin + extent, id});
    }
    std::sort(arcs.begin(), arcs.end(), [](const Arc& a, const Arc& b) {
      return std::pair(a.begin, a.id) < std::pair(b.begin, b.id);
    });
    std::vector<Group> parts;
    std::vector<int64_t> begins;
    int64_t end = -1;
    for (const Arc& arc : arcs) {
      if (parts.empty() || arc.begin >= end) {
        parts.emplace_back();
        begins.push_back(arc.begin);
      }
      parts.back().push_back(arc.id);
      end = std::max(end, arc.end);
    }
    // What reaches past the end of the circle meets the first parts again.
    size_t wrapped = 0;
    while (wrapped + 1 < parts.size() && begins[wrapped] < end - period) ++wrapped;
    for (size_t i = 0; i < wrapped; ++i) {
      parts.back().insert(parts.back().end(), parts[i].begin(), parts[i].end());
    }
    parts.erase(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(wrapped));
    return parts;
  }

  std::optional<SharedByte> compare(Group group) {
    sort_by_low(&group);
    for (size_t i = 0; i < group.size(); ++i) {
      const StridedBytes& a = sets_[group[i]];
      const int64_t end = a.high();
      for (size_t j = i + 1; j < group.size() && sets_[group[j]].low < end; ++j) {
        const StridedBytes& b = sets_[group[j]];
        const bool meet = overlap(a, b, budget_);
        if (*budget_ <= 0) return std::nullopt;
        if (!meet) continue;
        return SharedByte{std::min(group[i], group[j]), std::max(group[i], group[j]),
                          common_byte(a, b, budget_)};
      }
    }
    return std::nullopt;
  }

  void sort_by_low(Group* group) const {
    std::sort(group->begin(), group->end(), [this](uint32_t a, uint32_t b) {
      return std::pair(sets_[a].low, a) < std::pair(sets_[b].low, b);
    });
  }

  std::span<const StridedBytes> sets_;
  int64_t* budget_;
};

}  // namespace

std::optional<SharedByte> find_shared_byte(std::span<const StridedBytes> sets, int64_t* budget) {
  return Search(sets, budget).run();
}

}  // namespace wb
