#include "plan/flow_network.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <utility>

namespace wb {
namespace {

// Flows whose ends are closer together than this part of the time so far end together: what
// rounding would make of equal ends.
constexpr double kTogether = 1e-9;

}  // namespace

class FlowNetwork::Run {
 public:
  explicit Run(const FlowNetwork& network)
      : net_(network),
        waits_(network.flows_.size()),
        rest_(network.flows_.size()),
        rate_(network.flows_.size()),
        followers_(network.flows_.size()),
        lanes_(network.lanes_.size()),
        left_(network.resources_.size()),
        weight_(network.resources_.size()),
        open_(network.resources_.size()),
        users_(network.resources_.size()) {}

  Result<FlowHistory> run() {
    prepare();
    while (ended_ < net_.flows_.size()) {
      let_go();
      if (running_.empty() && arriving_.empty()) {
        // A flow without bytes may have ended in let_go, and let others go.
        if (ended_ == net_.flows_.size()) break;
        if (!dirty_.empty()) continue;
        return Status(Code::kInvalidArgument,
                      std::to_string(net_.flows_.size() - ended_) + " flows wait for each other");
      }
      share();
      step();
    }
    history_.seconds = now_;
    return std::move(history_);
  }

 private:
  struct Lane {
    std::vector<uint32_t> waiting;  // in order
    uint32_t running = 0;
    bool dirty = false;  // whether it is in dirty_
  };
  using Arrival = std::pair<double, uint32_t>;  // time, flow
  using Share = std::pair<double, uint32_t>;    // rate per weight, resource

  void prepare() {
    history_.begin.assign(net_.flows_.size(), 0);
    history_.end.assign(net_.flows_.size(), 0);
    for (uint32_t f = 0; f < net_.flows_.size(); ++f) {
      const NetworkFlow& flow = net_.flows_[f];
      rest_[f] = flow.bytes;
      waits_[f] = static_cast<uint32_t>(flow.after.size());
      for (const uint32_t before : flow.after) followers_[before].push_back(f);
      lanes_[flow.lane].waiting.push_back(f);
    }
    for (uint32_t lane = 0; lane < lanes_.size(); ++lane) mark(lane);
  }

  void mark(uint32_t lane) {
    if (!std::exchange(lanes_[lane].dirty, true)) dirty_.push_back(lane);
  }

  // Lets every flow go that may. Only lanes in which something has changed are looked at.
  void let_go() {
    while (!dirty_.empty()) {
      const uint32_t index = dirty_.back();
      dirty_.pop_back();
      Lane& lane = lanes_[index];
      lane.dirty = false;
      const uint32_t most = net_.lanes_[index] == 0 ? UINT32_MAX : net_.lanes_[index];
      size_t kept = 0;
      for (size_t i = 0; i < lane.waiting.size(); ++i) {
        const uint32_t flow = lane.waiting[i];
        if (lane.running < most && waits_[flow] == 0) {
          ++lane.running;
          begin(flow);
        } else {
          lane.waiting[kept++] = flow;
        }
      }
      lane.waiting.resize(kept);
    }
  }

  void begin(uint32_t flow) {
    history_.begin[flow] = now_;
    if (net_.flows_[flow].delay > 0) {
      arriving_.emplace(now_ + net_.flows_[flow].delay, flow);
    } else {
      arrive(flow);
    }
  }

  void arrive(uint32_t flow) {
    if (rest_[flow] > 0) {
      running_.push_back(flow);
    } else {
      finish(flow);
    }
  }

  void finish(uint32_t flow) {
    history_.end[flow] = now_;
    ++ended_;
    const uint32_t lane = net_.flows_[flow].lane;
    --lanes_[lane].running;
    mark(lane);
    for (const uint32_t follower : followers_[flow]) {
      if (--waits_[follower] == 0) mark(net_.flows_[follower].lane);
    }
  }

  // Progressive filling: raise all rates together; whenever a resource is full, the flows on it
  // keep their rate and the others go on. The next resource to be full is found in a heap whose
  // entries are brought up to date when they come up: shares only grow, since what a frozen flow
  // takes per weight is never above the share of the resources that are still open.
  void share() {
    touched_.clear();
    for (const uint32_t flow : running_) {
      rate_[flow] = -1;
      for (const ResourceUse& use : net_.flows_[flow].uses) {
        if (use.weight <= 0) continue;
        if (open_[use.resource]++ == 0) {
          touched_.push_back(use.resource);
          left_[use.resource] = net_.resources_[use.resource].per_second;
          weight_[use.resource] = 0;
          users_[use.resource].clear();
        }
        weight_[use.resource] += use.weight;
        users_[use.resource].push_back(flow);
      }
    }
    std::vector<Share> shares;
    shares.reserve(touched_.size());
    for (const uint32_t r : touched_) shares.emplace_back(left_[r] / weight_[r], r);
    std::priority_queue<Share, std::vector<Share>, std::greater<>> next(std::greater<>(),
                                                                        std::move(shares));
    while (!next.empty()) {
      const auto [old, r] = next.top();
      next.pop();
      if (open_[r] == 0) continue;
      const double now = std::max(old, left_[r] / weight_[r]);
      if (!next.empty() && now > next.top().first * (1 + 1e-12)) {
        next.emplace(now, r);
        continue;
      }
      for (const uint32_t flow : users_[r]) {
        if (rate_[flow] < 0) freeze(flow, now);
      }
    }
  }

  void freeze(uint32_t flow, double rate) {
    rate_[flow] = rate;
    for (const ResourceUse& use : net_.flows_[flow].uses) {
      if (use.weight <= 0) continue;
      const uint32_t r = use.resource;
      --open_[r];
      left_[r] = std::max(0.0, left_[r] - rate * use.weight);
      weight_[r] = std::max(weight_[r] - use.weight, std::numeric_limits<double>::min());
    }
  }

  // To the next moment at which a flow ends or begins.
  void step() {
    double until =
        arriving_.empty() ? std::numeric_limits<double>::infinity() : arriving_.top().first - now_;
    for (const uint32_t flow : running_) until = std::min(until, rest_[flow] / rate_[flow]);
    until = std::max(until, 0.0);
    record(until);
    const double together = until + (now_ + until) * kTogether;
    now_ += until;
    std::vector<uint32_t> before;
    before.swap(running_);
    for (const uint32_t flow : before) {
      if (rest_[flow] <= rate_[flow] * together) {
        rest_[flow] = 0;
        finish(flow);
      } else {
        rest_[flow] -= rate_[flow] * until;
        running_.push_back(flow);
      }
    }
    while (!arriving_.empty() && arriving_.top().first <= now_ * (1 + kTogether)) {
      const uint32_t flow = arriving_.top().second;
      arriving_.pop();
      arrive(flow);
    }
  }

  void record(double until) {
    if (until <= 0) return;
    FlowHistory::Epoch epoch{now_ + until, {}};
    for (const uint32_t flow : running_) {
      for (const ResourceUse& use : net_.flows_[flow].uses) {
        epoch.used[net_.resources_[use.resource].kind] += rate_[flow] * use.weight;
      }
    }
    history_.epochs.push_back(epoch);
  }

  const FlowNetwork& net_;
  double now_ = 0;
  size_t ended_ = 0;
  FlowHistory history_;
  std::vector<uint32_t> waits_;  // flows that have to end before
  std::vector<double> rest_;     // bytes
  std::vector<double> rate_;     // of a running flow
  std::vector<std::vector<uint32_t>> followers_;
  std::vector<Lane> lanes_;
  std::vector<uint32_t> dirty_;
  std::vector<uint32_t> running_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arriving_;
  // Of share(): by resource; open_ counts uses of flows that have no rate yet.
  std::vector<double> left_, weight_;
  std::vector<uint32_t> open_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<uint32_t> touched_;
};

uint32_t FlowNetwork::add_resource(double per_second, uint32_t kind) {
  resources_.push_back({per_second, kind});
  return static_cast<uint32_t>(resources_.size() - 1);
}

uint32_t FlowNetwork::add_lane(uint32_t at_once) {
  lanes_.push_back(at_once);
  return static_cast<uint32_t>(lanes_.size() - 1);
}

uint32_t FlowNetwork::add_flow(NetworkFlow flow) {
  flows_.push_back(std::move(flow));
  return static_cast<uint32_t>(flows_.size() - 1);
}

double FlowNetwork::capacity(uint32_t kind) const {
  double sum = 0;
  for (const Resource& resource : resources_) {
    if (resource.kind == kind) sum += resource.per_second;
  }
  return sum;
}

Status FlowNetwork::check() const {
  const auto bad = [](const std::string& what) { return Status(Code::kInvalidArgument, what); };
  for (size_t r = 0; r < resources_.size(); ++r) {
    if (!(resources_[r].per_second > 0) || !std::isfinite(resources_[r].per_second) ||
        resources_[r].kind >= FlowHistory::kKinds) {
      return bad("resource " + std::to_string(r) + " has no speed");
    }
  }
  for (size_t f = 0; f < flows_.size(); ++f) {
    const NetworkFlow& flow = flows_[f];
    const std::string name = "flow " + std::to_string(f);
    if (!(flow.bytes >= 0) || !std::isfinite(flow.bytes) || !(flow.delay >= 0) ||
        !std::isfinite(flow.delay) || flow.lane >= lanes_.size()) {
      return bad(name + " has a number out of range");
    }
    bool carried = flow.bytes == 0;
    for (const ResourceUse& use : flow.uses) {
      if (use.resource >= resources_.size() || !(use.weight >= 0) || !std::isfinite(use.weight)) {
        return bad(name + " uses a resource that is not there");
      }
      carried = carried || use.weight > 0;
    }
    if (!carried) return bad(name + " has bytes and nothing that carries them");
    for (const uint32_t before : flow.after) {
      if (before >= flows_.size()) return bad(name + " waits for a flow that is not there");
    }
  }
  return Status();
}

Result<FlowHistory> FlowNetwork::run() const {
  WB_RETURN_IF_ERROR(check());
  return Run(*this).run();
}

}  // namespace wb
