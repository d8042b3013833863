// RDMA NICs in memory, behind the table that libibverbs is behind too (verbs/api.h). READs are
// really executed, later than they were posted and chunk by chunk in a seeded order, so that memory
// that changes in between really tears. Everything that a NIC can do to a reader can be ordered
// here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "transport/verbs/api.h"
#include "transport/verbs/gid.h"

namespace wb::fake {

struct NicCaps {
  std::string name = "fake0";
  verbs::LinkLayer layer = verbs::LinkLayer::kEthernet;
  std::vector<verbs::GidRow> gids;
  uint16_t lid = 0;
  std::vector<uint16_t> pkeys = {0xffff};
  uint8_t width = 2;  // 4 lanes
  uint8_t speed = 128;
  ibv_mtu mtu = IBV_MTU_4096;
  uint32_t vendor = 0x02c9;
  int read_depth = 16;  // max_qp_rd_atom and max_qp_init_rd_atom
  int sge = 30;
  int queue = 8192;  // max_qp_wr
  int cqe = 4194303;
  int queue_pairs = 1 << 17;
  int regions = 1 << 24;
  uint64_t region_bytes = UINT64_MAX;
  uint32_t message_bytes = 1u << 30;
  int numa_node = -1;
  int takes_depth = 0;             // what modify_qp cuts read depths to in silence; 0: nothing
  bool keeps_completions = false;  // of queue pairs that are destroyed, as soft-RoCE does
};

// ConnectX-5 to -8, with one IPv4 RoCE v2 address; soft-RoCE.
NicCaps connectx(int generation, const std::string& name, const std::string& ipv4);
NicCaps soft_roce(const std::string& name, const std::string& ipv4);

enum class Engine : uint8_t {
  kOnPoll,   // the NIC works when a completion queue is polled: one thread, the same every time
  kThread,   // in a thread of its own
  kInstant,  // READs complete when posted and copy no data; one thread, no locks: for benchmarks
};

struct Script {
  Engine engine = Engine::kOnPoll;
  uint64_t seed = 1;
  uint32_t chunk = 4096;        // bytes copied at once
  uint32_t steps_per_poll = 8;  // kOnPoll: chunks or completions per call
  uint32_t delay = 0;           // steps until a READ begins to be executed
};

// Objects that are open, of all hosts.
struct Live {
  uint64_t contexts = 0, pds = 0, regions = 0, channels = 0, cqs = 0, qps = 0;
  bool operator==(const Live&) const = default;
};

// A fault names a NIC by host and name. All calls may come from any thread.
class Fabric {
 public:
  explicit Fabric(const Script& script);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // A machine on the fabric. The fabric outlives what was opened there.
  size_t add_host(std::vector<NicCaps> nics);
  std::shared_ptr<const verbs::Verbs> verbs(size_t host) const;
  const Digest& id() const;

  // The READ that is the `after`-th from now to begin on the NIC ends with the status.
  void fail_read(size_t host, const std::string& nic, ibv_wc_status status, uint32_t vendor,
                 uint32_t after = 0);
  // From now on posting takes at most so many work requests a call, then refuses with `error`.
  void limit_posts(size_t host, const std::string& nic, uint32_t most, int error, uint32_t calls);
  // So many work requests more are taken in all, then none.
  void stop_posts(size_t host, const std::string& nic, uint32_t after, int error);
  void set_link(size_t host, const std::string& nic, bool up);
  void set_gids(size_t host, const std::string& nic, std::vector<verbs::GidRow> gids);
  // The device disappears: no completion comes any more, and DEVICE_FATAL is raised.
  void remove(size_t host, const std::string& nic);
  // All of the host's queue pairs are gone without a word, as when its process is killed.
  void kill(size_t host);
  void raise(size_t host, const std::string& nic, ibv_event_type type);
  // All queue pairs of the NIC go to ERR.
  void break_queue_pairs(size_t host, const std::string& nic);
  // Nothing is executed while it holds.
  void hold(bool on);
  // What the next registrations answer, with this errno.
  void refuse_regions(size_t host, const std::string& nic, int error);

  // Destroying its queue pairs fails from now on, with this errno; they go on reading.
  void keep_queue_pairs(size_t host, const std::string& nic, int error);

  // The next registration gets the key of an earlier one, as happens when keys run out.
  void reuse_keys(size_t host, const std::string& nic);

  Live live() const;
  uint64_t overruns() const;  // completions lost because a queue was too small
  uint64_t reads() const;     // begun
  uint64_t bytes() const;     // copied

  struct State;

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace wb::fake
