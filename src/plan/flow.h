// Divides amounts over nodes with speeds, so that the largest load / speed is as small as any
// division could make it, and the loads below the largest are as even as they can be after that.
// Exact, integral, deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace wb {

__extension__ typedef unsigned __int128 uint128_t;

// bytes / speed, for comparing times without rounding.
struct Ratio {
  uint64_t bytes = 0;
  uint64_t speed = 1;  // > 0

  friend bool operator<(const Ratio& a, const Ratio& b) {
    return static_cast<uint128_t>(a.bytes) * b.speed < static_cast<uint128_t>(b.bytes) * a.speed;
  }
  // What fits into this time, or takes at least this time, at another speed. At most 2^63, which no
  // sum of bytes reaches.
  // NOLINTBEGIN(clang-analyzer-core.DivideZero): speeds are positive.
  uint64_t floor_at(uint64_t other) const {
    return bounded(static_cast<uint128_t>(bytes) * other / speed);
  }
  uint64_t ceil_at(uint64_t other) const {
    return bounded((static_cast<uint128_t>(bytes) * other + speed - 1) / speed);
  }
  // NOLINTEND(clang-analyzer-core.DivideZero)

 private:
  static uint64_t bounded(uint128_t value) {
    constexpr uint128_t kMost = uint128_t{1} << 63;
    return static_cast<uint64_t>(value < kMost ? value : kMost);
  }
};

// Preconditions: amounts and bases sum to less than 2^63, speeds to less than 2^64.
struct FlowProblem {
  struct Node {
    uint64_t speed = 1;  // > 0
    uint64_t base = 0;   // load that it has anyway
  };
  std::vector<Node> nodes;
  std::vector<uint64_t> amounts;  // by task, > 0
  // Task t may use nodes options[option_begin[t]] .. options[option_begin[t + 1] - 1], ascending,
  // at least one.
  std::vector<uint32_t> option_begin = {0};
  std::vector<uint32_t> options;

  void add(uint64_t amount, std::span<const uint32_t> nodes_of_task);
  std::span<const uint32_t> options_of(uint32_t task) const {
    return {options.data() + option_begin[task], options.data() + option_begin[task + 1]};
  }
  uint32_t tasks() const { return static_cast<uint32_t>(amounts.size()); }
};

struct FlowShare {
  uint32_t task = 0;
  uint32_t node = 0;
  uint64_t amount = 0;  // > 0

  friend bool operator==(const FlowShare&, const FlowShare&) = default;
};

struct FlowDivision {
  // By (task, node). Tasks and nodes joined by shares are a forest: so there are fewer shares than
  // tasks and nodes together.
  std::vector<FlowShare> shares;
  // By node: its time if bytes could be split. No division makes a node less busy than this without
  // making another one that is as busy or busier take longer; the largest is a bound for them all.
  std::vector<Ratio> level;
};

// Tasks with equal options are interchangeable; of those, who gets which node follows their order.
FlowDivision divide(const FlowProblem& problem);

}  // namespace wb
