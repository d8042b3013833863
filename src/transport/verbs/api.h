// The seam: the verbs that this transport calls, as a table with two implementations, libibverbs
// (library.h) and a NIC in memory (transport/fake). Posting, polling and arming go through the
// context's own function pointers (ibv_post_send, ibv_poll_cq, ibv_req_notify_cq are inline), so
// the seam costs the hot path nothing.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

namespace wb::verbs {

// Each function has the meaning, results and errno of the libibverbs function of its name.
class Verbs {
 public:
  virtual ~Verbs() = default;

  virtual ibv_device** get_device_list(int* count) const = 0;
  virtual void free_device_list(ibv_device** list) const = 0;
  virtual ibv_context* open_device(ibv_device* device) const = 0;
  virtual int close_device(ibv_context* context) const = 0;
  virtual int query_device(ibv_context* context, ibv_device_attr* out) const = 0;
  virtual int query_port(ibv_context* context, uint8_t port, ibv_port_attr* out) const = 0;
  // errno ENODATA for an index that holds nothing.
  virtual int query_gid(ibv_context* context, uint8_t port, uint32_t index,
                        ibv_gid_entry* out) const = 0;
  virtual int query_pkey(ibv_context* context, uint8_t port, int index, __be16* out) const = 0;

  virtual ibv_pd* alloc_pd(ibv_context* context) const = 0;
  virtual int dealloc_pd(ibv_pd* pd) const = 0;
  // Optional access flags that the kernel does not know are left out.
  virtual ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t bytes, unsigned access) const = 0;
  virtual int dereg_mr(ibv_mr* mr) const = 0;

  virtual ibv_comp_channel* create_comp_channel(ibv_context* context) const = 0;
  virtual int destroy_comp_channel(ibv_comp_channel* channel) const = 0;
  virtual ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) const = 0;
  virtual int destroy_cq(ibv_cq* cq) const = 0;
  virtual int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq) const = 0;
  virtual void ack_cq_events(ibv_cq* cq, unsigned count) const = 0;

  virtual ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* init) const = 0;
  virtual int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) const = 0;
  virtual int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) const = 0;
  virtual int destroy_qp(ibv_qp* qp) const = 0;

  virtual int get_async_event(ibv_context* context, ibv_async_event* event) const = 0;
  virtual void ack_async_event(ibv_async_event* event) const = 0;

  // NUMA node of the device, -1 when unknown.
  virtual int numa_node(const ibv_device* device) const = 0;
  // What this is, for the report: "libibverbs.so.1", "fake NICs".
  virtual std::string origin() const = 0;
};

}  // namespace wb::verbs
