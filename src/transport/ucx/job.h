// A read list of the ucx transport: one ucp_get per row, a bounded number in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"
#include "transport/ucx/context.h"
#include "transport/ucx/endpoint.h"
#include "transport/ucx/wire.h"

namespace wb::ucx {

// Larger rows are read in parts, so that one poll() stays short where UCX copies in the call.
constexpr uint64_t kMaxGet = 4u << 20;

// A region of the peer, with UCX's unpacked key.
struct RemoteMemory {
  std::shared_ptr<Endpoint> endpoint;  // the key is its worker's
  ucp_rkey_h rkey = nullptr;
  uint64_t address = 0;
  uint64_t bytes = 0;

  static Result<std::unique_ptr<RemoteMemory>> unpack(std::shared_ptr<Endpoint> endpoint,
                                                      const PackedMemory& packed);
  ~RemoteMemory();
};

struct RemoteRecord {
  UcxKey key;
  std::unique_ptr<RemoteMemory> memory;
};

struct Piece {
  uint64_t remote = 0;
  std::byte* local = nullptr;
  uint64_t length = 0;
  uint64_t count = 0;
  int64_t remote_pitch = 0;
  int64_t local_pitch = 0;
  ucp_rkey_h rkey = nullptr;
  ucp_mem_h local_memory = nullptr;
};

// What UCX's completions refer to, and the memory that they fill: outlives the job if need be.
struct Flight {
  const Library* library = nullptr;
  std::vector<std::shared_ptr<const Memory>> local;
  uint32_t reads = 0;                        // posted and not completed
  std::shared_ptr<uint32_t> endpoint_reads;  // likewise, of all jobs of the endpoint
  Status failure;                            // the first
};

class UcxJob : public ReadJob {
 public:
  UcxJob(const Connection* owner, std::shared_ptr<Endpoint> endpoint, std::vector<Piece> pieces,
         std::vector<std::shared_ptr<const RemoteRecord>> remote,
         std::vector<std::shared_ptr<const Memory>> local);
  // Waits a second for an active job's reads, then closes the endpoint and waits another. Memory
  // that UCX still writes to after that is never freed.
  ~UcxJob() override;

  JobState state() const override { return state_; }
  Status status() const override { return flight_->failure; }
  uint64_t bytes_done() const override { return bytes_done_; }

  const Connection* owner() const { return owner_; }
  const std::vector<std::shared_ptr<const RemoteRecord>>& remote() const { return remote_; }

  Status start();
  // Posts reads until `window` are in flight, `budget` bytes were posted, or all are.
  void post_some(uint32_t window, uint64_t budget);
  // The first failure stays; no further read is posted, those in flight end.
  void stop(Status status);
  bool failed() const { return !flight_->failure.ok(); }
  bool all_posted() const { return cursor_.piece == pieces_.size(); }
  uint32_t in_flight() const { return flight_->reads; }
  void end(JobState state) {
    state_ = state;
    if (state == JobState::kDone) bytes_done_ = bytes_posted_;
  }

 private:
  struct Cursor {
    size_t piece = 0;
    uint64_t row = 0;
    uint64_t byte = 0;
  };
  static void on_done(void* request, ucs_status_t status, void* flight);

  const Connection* owner_;
  const std::shared_ptr<Endpoint> endpoint_;
  const std::vector<Piece> pieces_;
  const std::vector<std::shared_ptr<const RemoteRecord>> remote_;
  JobState state_ = JobState::kIdle;
  std::unique_ptr<Flight> flight_;
  uint64_t bytes_posted_ = 0;
  uint64_t bytes_done_ = 0;
  Cursor cursor_;
};

}  // namespace wb::ucx
