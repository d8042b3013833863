// Flows of bytes over shared links: who gets how much of what, and when each flow ends.
//
// The fluid model of networks: at each moment every flow that runs has a rate, and the rates are
// max-min fair: no flow could have more without another, which has no more than it, having less.
// Rates change only when a flow begins or ends. Floating point, unlike the rest of this room: an
// estimate for people, never an input to a plan.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"

namespace wb {

// A flow at rate r takes r * weight of the resource.
struct ResourceUse {
  uint32_t resource = 0;
  double weight = 1;
};

struct NetworkFlow {
  double bytes = 0;
  std::vector<ResourceUse> uses;  // at least one of positive weight, if there are bytes
  std::vector<uint32_t> after;    // flows that have ended before this one may begin
  uint32_t lane = 0;
  double delay = 0;  // seconds from when it may begin to its first byte
};

struct FlowHistory {
  static constexpr size_t kKinds = 8;
  // From the end of the epoch before (or zero) to `end`, each kind of resource was used this much.
  struct Epoch {
    double end = 0;
    std::array<double, kKinds> used{};
  };

  double seconds = 0;         // when the last flow ended
  std::vector<double> begin;  // of each flow: when it was let go
  std::vector<double> end;
  std::vector<Epoch> epochs;
};

class FlowNetwork {
 public:
  // `kind` < FlowHistory::kKinds groups resources in the history.
  uint32_t add_resource(double per_second, uint32_t kind);
  // Of the flows of a lane at most `at_once` run at the same time (0: all). They begin in the order
  // in which they were added; one that has to wait for others is passed over until it need not.
  uint32_t add_lane(uint32_t at_once);
  uint32_t add_flow(NetworkFlow flow);

  size_t flows() const { return flows_.size(); }
  double capacity(uint32_t kind) const;  // of all resources of a kind

  // kInvalidArgument: an index or number out of range, a flow with bytes and no resource, flows
  // that wait for each other.
  Result<FlowHistory> run() const;

 private:
  struct Resource {
    double per_second = 0;
    uint32_t kind = 0;
  };
  class Run;

  Status check() const;

  std::vector<Resource> resources_;
  std::vector<uint32_t> lanes_;
  std::vector<NetworkFlow> flows_;
};

}  // namespace wb
