// The READ work requests of one queue pair, built once: per READ only addresses, keys and lengths
// are written, per batch only where the chain ends.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <vector>

namespace wb::verbs {

// Work requests per doorbell. The last one of each batch is signalled: whenever posting stops, for
// lack of work, credits or budget, a completion is on its way that tells of everything posted.
constexpr uint32_t kBatch = 32;

class WorkRequests {
 public:
  // `token` comes back in the upper bits of every completion.
  WorkRequests(uint32_t token, uint32_t scatter)
      : scatter_(scatter), entries_(size_t{kBatch} * scatter) {
    for (uint32_t i = 0; i < kBatch; ++i) {
      requests_[i] = {};
      requests_[i].wr_id = uint64_t{token} << 8 | i;
      requests_[i].next = i + 1 < kBatch ? &requests_[i + 1] : nullptr;
      requests_[i].sg_list = &entries_[size_t{i} * scatter];
      requests_[i].num_sge = 1;
      requests_[i].opcode = IBV_WR_RDMA_READ;
    }
  }
  WorkRequests(const WorkRequests&) = delete;
  WorkRequests& operator=(const WorkRequests&) = delete;

  static uint32_t token_of(uint64_t wr_id) { return static_cast<uint32_t>(wr_id >> 8); }
  static uint32_t position_of(uint64_t wr_id) { return static_cast<uint32_t>(wr_id & 0xff); }

  uint32_t scatter() const { return scatter_; }
  uint64_t first_id() const { return requests_[0].wr_id; }

  void set(uint32_t i, uint64_t remote, uint32_t rkey, uint64_t local, uint32_t length,
           uint32_t lkey) {
    ibv_send_wr& request = requests_[i];
    request.wr.rdma.remote_addr = remote;
    request.wr.rdma.rkey = rkey;
    request.num_sge = 1;
    *request.sg_list = {local, length, lkey};
  }
  void set_scattered(uint32_t i, uint64_t remote, uint32_t rkey, uint64_t local, int64_t row_pitch,
                     uint32_t rows, uint32_t length, uint32_t lkey) {
    ibv_send_wr& request = requests_[i];
    request.wr.rdma.remote_addr = remote;
    request.wr.rdma.rkey = rkey;
    request.num_sge = static_cast<int>(rows);
    for (uint32_t row = 0; row < rows; ++row) {
      request.sg_list[row] = {local, length, lkey};
      local += static_cast<uint64_t>(row_pitch);
    }
  }

  // Rings one doorbell for the first `count`, the last one signalled. Returns how many the queue
  // pair took; `error` is the errno when that is not all.
  uint32_t post(ibv_qp* qp, uint32_t count, int* error) {
    ibv_send_wr& last = requests_[count - 1];
    ibv_send_wr* const next = last.next;
    last.next = nullptr;
    last.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* refused = nullptr;
    *error = ibv_post_send(qp, requests_.data(), &refused);
    last.next = next;
    last.send_flags = 0;
    if (*error == 0) return count;
    return refused == nullptr ? 0 : static_cast<uint32_t>(refused - requests_.data());
  }

 private:
  const uint32_t scatter_;
  std::array<ibv_send_wr, kBatch> requests_;
  std::vector<ibv_sge> entries_;
};
static_assert(kBatch <= 256, "a position in a batch is the low byte of a work request's id");

}  // namespace wb::verbs
