// What the fake NIC's verbs objects are made of. Each begins with the struct that verbs.h knows, so
// that a pointer to one is a pointer to the other.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "transport/fake/fabric.h"

namespace wb::fake {

struct Nic;
struct Host;

struct Context : ibv_context {
  Nic* nic = nullptr;
  std::deque<ibv_async_event> events;
};

struct Device : ibv_device {
  Nic* nic = nullptr;
};

struct Pd : ibv_pd {
  int users = 0;
};

struct Region : ibv_mr {
  unsigned access = 0;
};

struct Channel : ibv_comp_channel {
  std::deque<ibv_cq*> events;
};

struct Qp;

struct Completion {
  ibv_wc wc{};
  uint64_t sequence = 0;
};

struct Cq : ibv_cq {
  std::deque<Completion> completions;
  bool armed = false;
  int users = 0;
  // kInstant: a ring that never grows.
  std::vector<ibv_wc> ring;
  size_t head = 0;
  size_t tail = 0;
};

// A READ in a send queue.
struct Read {
  uint64_t wr_id = 0;
  uint64_t sequence = 0;
  bool signalled = false;
  uint64_t remote = 0;
  uint32_t rkey = 0;
  std::vector<ibv_sge> entries;
  uint64_t bytes = 0;
  uint32_t delay = 0;
  bool begun = false;
  std::vector<uint64_t> chunks;  // offsets that are still to be copied, the next one last
  ibv_wc_status status = IBV_WC_SUCCESS;
  uint32_t vendor = 0;
  bool ended() const { return begun && chunks.empty(); }
};

struct Qp : ibv_qp {
  Nic* nic = nullptr;
  ibv_qp_attr attr{};
  ibv_qp_cap cap{};
  std::deque<Read> queue;
  uint64_t next_sequence = 0;
  uint64_t freed = 0;  // work requests that a taken completion has told of
  uint32_t instant_used = 0;
};

struct Nic {
  NicCaps caps;
  Host* host = nullptr;
  Fabric::State* fabric = nullptr;
  Device device;
  std::vector<Context*> contexts;
  std::map<uint32_t, Region*> regions;  // by key
  std::map<uint32_t, Qp*> qps;          // by number
  uint32_t next_key = 1;
  bool up = true;
  bool removed = false;

  // Faults that were ordered.
  bool fail = false;
  uint32_t fail_after = 0;
  ibv_wc_status fail_status = IBV_WC_SUCCESS;
  uint32_t fail_vendor = 0;
  uint32_t limited_calls = 0;
  uint32_t limit = 0;
  bool stops = false;
  uint32_t stop_after = 0;
  int limit_error = 0;
  int region_error = 0;
  int destroy_error = 0;
};

struct Host {
  std::vector<std::unique_ptr<Nic>> nics;
};

struct Fabric::State : std::enable_shared_from_this<Fabric::State> {
  Script script;
  Digest id;
  mutable std::mutex mutex;  // guards all that follows, and every object of the fabric
  std::vector<std::unique_ptr<Host>> hosts;
  std::mt19937_64 random;
  uint32_t next_qp = 1;
  bool held = false;
  bool stopping = false;
  std::condition_variable work;
  std::thread thread;
  Live live;
  uint64_t reads = 0;
  uint64_t bytes = 0;
  uint64_t overruns = 0;

  Nic* find(size_t host, const std::string& nic);
  Nic* find(const verbs::Gid& gid);
  // One unit of work of one queue pair: false when there is nothing to do.
  bool step();
  void run();
  void to_error(Qp* qp);
  void complete(Qp* qp, const Read& read, ibv_wc_status status, uint32_t vendor);
  void raise(Nic* nic, ibv_event_type type);

 private:
  bool runnable(const Qp& qp) const;
  void work_on(Qp* qp);
  void begin(Qp* qp, Read* read);
  void copy_chunk(Qp* qp, Read* read);
  void end_head(Qp* qp);
  Qp* responder_of(const Qp& qp) const;
};

// The verbs of one host.
std::shared_ptr<const verbs::Verbs> make_verbs(std::shared_ptr<Fabric::State> state, size_t host);

}  // namespace wb::fake
