// A read list of the local transport, and the loops that execute it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "plan/read_list.h"
#include "transport/local/process_reader.h"
#include "transport/local/regions.h"
#include "transport/transport.h"

namespace wb::local {

// A run with its regions resolved to addresses.
struct Piece {
  uint64_t remote = 0;  // address here when mapped, in the source otherwise
  std::byte* local = nullptr;
  uint64_t length = 0;
  uint64_t count = 0;
  int64_t remote_pitch = 0;
  int64_t local_pitch = 0;
  uint32_t region = 0;  // index of the remote region in the job
  bool mapped = false;
};

class LocalJob : public ReadJob {
 public:
  // `pieces` are inside the regions; `owner` is the connection that made the job. The job holds the
  // memory on both sides.
  LocalJob(const Connection* owner, std::vector<Piece> pieces,
           std::vector<std::shared_ptr<const RemoteRegionRecord>> remote,
           std::vector<std::shared_ptr<const LocalRegionRecord>> local);

  JobState state() const override { return state_; }
  Status status() const override { return status_; }
  uint64_t bytes_done() const override { return bytes_done_; }

  const Connection* owner() const { return owner_; }
  // kFailedPrecondition when active, or when a local region was deregistered.
  Status start();
  // Moves about `budget` bytes; `reader` and `batch` are the connection's.
  JobState advance(uint64_t budget, const ProcessReader& reader, RangeBatch& batch);
  void fail(Status status);
  // Brings the mapped pages that the job reads into this process's page table.
  Status populate(Deadline deadline) const;

 private:
  // Where the next byte is: run, row, byte in the row.
  struct Cursor {
    size_t piece = 0;
    uint64_t row = 0;
    uint64_t byte = 0;
  };

  uint64_t copy_mapped(uint64_t budget);
  // `rows` rows of `piece`, which is the cursor's, from and to these addresses.
  void stream_rows(const Piece& piece, uint64_t rows, uint64_t from, std::byte* to) const;
  Result<uint64_t> copy_process(uint64_t budget, const ProcessReader& reader, RangeBatch& batch);
  // Both move the cursor over bytes of the piece that it is in.
  void fill(Cursor& cursor, uint64_t budget, RangeBatch& batch) const;
  void skip(Cursor& cursor, uint64_t bytes) const;

  const Connection* owner_;
  const std::vector<Piece> pieces_;
  const std::vector<std::shared_ptr<const RemoteRegionRecord>> remote_;
  const std::vector<std::shared_ptr<const LocalRegionRecord>> local_;
  const bool streamed_;  // past the cache
  JobState state_ = JobState::kIdle;
  Status status_;
  uint64_t bytes_done_ = 0;
  Cursor cursor_;
};

}  // namespace wb::local
