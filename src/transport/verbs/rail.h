// One opened port of one RDMA device, and what was decided about it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "observe/log.h"
#include "transport/verbs/api.h"
#include "transport/verbs/options.h"
#include "transport/verbs/ports.h"
#include "transport/verbs/wire.h"

namespace wb::verbs {

enum class RailHealth : uint8_t {
  kUp,
  kDown,     // the port lost its link, or its address; may come back
  kRemoved,  // the device is gone or broken for good
};

class Rail {
 public:
  // `reason`: why this port. The context is the rail's from here on.
  static Result<std::shared_ptr<Rail>> open(std::shared_ptr<const Verbs> verbs,
                                            ibv_context* context, const PortInfo& info,
                                            const std::string& reason, const VerbsOptions& options);
  ~Rail();
  Rail(const Rail&) = delete;
  Rail& operator=(const Rail&) = delete;

  const Verbs& verbs() const { return *verbs_; }
  ibv_context* context() const { return context_; }
  ibv_pd* pd() const { return pd_; }
  const ibv_device_attr& device() const { return device_; }
  const PathEnd& end() const { return end_; }
  const std::string& name() const { return name_; }
  uint8_t port() const { return port_; }
  uint32_t gbps() const { return gbps_; }
  int numa_node() const { return numa_node_; }  // -1: the system does not tell
  uint32_t gid_index() const { return gid_index_; }
  uint16_t pkey_index() const { return pkey_index_; }
  uint32_t max_message() const { return max_message_; }
  // READs that a queue pair may have outstanding here, and that it answers.
  uint8_t initiator_depth() const { return initiator_depth_; }
  uint8_t responder_depth() const { return responder_depth_; }
  uint32_t scatter() const { return scatter_; }  // scatter entries of one READ
  // A processor moves the bytes (soft-RoCE): 64-bit words are not read whole.
  bool by_processor() const { return by_processor_; }
  // What was chosen and why, one sentence each.
  const std::vector<std::string>& reasons() const { return reasons_; }

  RailHealth health() const { return health_.load(std::memory_order_relaxed); }
  void set_health(RailHealth health) { health_.store(health, std::memory_order_relaxed); }
  // What keeps the port from being used now; empty: nothing.
  std::string trouble() const;

  // Bytes that may still be asked for before nic_budget is in flight: taken per batch of READs,
  // given back with its completion. Never refused to a queue pair that has nothing in flight, so
  // that a READ larger than the budget gets through.
  bool take_budget(uint64_t bytes, bool idle) {
    const int64_t want = static_cast<int64_t>(bytes);
    const int64_t before = budget_.fetch_sub(want, std::memory_order_relaxed);
    if (before >= want || idle) return true;
    budget_.fetch_add(want, std::memory_order_relaxed);
    return false;
  }
  void give_budget(uint64_t bytes) {
    budget_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  }
  // Memory registrations of this process on the device.
  uint64_t registrations() const { return registrations_.load(std::memory_order_relaxed); }
  void count_registration(int change) {
    registrations_.fetch_add(static_cast<uint64_t>(static_cast<int64_t>(change)),
                             std::memory_order_relaxed);
  }
  int64_t budget() const { return budget_.load(std::memory_order_relaxed); }

 private:
  Rail(std::shared_ptr<const Verbs> verbs, ibv_context* context)
      : verbs_(std::move(verbs)), context_(context) {}
  Status choose(const PortInfo& info, const VerbsOptions& options);
  Status choose_pkey(const ibv_port_attr& port, const VerbsOptions& options);

  const std::shared_ptr<const Verbs> verbs_;
  ibv_context* const context_;
  ibv_pd* pd_ = nullptr;
  ibv_device_attr device_{};
  std::string name_;
  uint8_t port_ = 1;
  uint32_t gbps_ = 0;
  int numa_node_ = -1;
  PathEnd end_;
  uint32_t gid_index_ = 0;
  uint16_t pkey_index_ = 0;
  uint32_t max_message_ = 0;
  uint8_t initiator_depth_ = 1;
  uint8_t responder_depth_ = 1;
  uint32_t scatter_ = 1;
  bool by_processor_ = false;
  std::vector<std::string> reasons_;
  std::atomic<RailHealth> health_ = RailHealth::kUp;
  std::atomic<int64_t> budget_{0};
  std::atomic<uint64_t> registrations_{0};
};

struct Rails {
  std::vector<std::shared_ptr<Rail>> rails;
  std::vector<std::string> left_out;  // ports that would have been used, and why they are not
};

// Opens the chosen ports of this machine. A port that cannot be used (an interface without an
// address) is left out unless the options name it. kUnsupported says what is missing, or what was
// found.
Result<Rails> open_rails(std::shared_ptr<const Verbs> verbs, const VerbsOptions& options, int near);

}  // namespace wb::verbs
