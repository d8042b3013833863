// One source as a receiver reads it: the connection, its imported regions, its header directory,
// and per slot a prepared job.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "plan/read_list.h"
#include "session/bound_memory.h"
#include "session/header.h"
#include "session/job_internal.h"
#include "session/roster.h"
#include "transport/transport.h"

namespace wb {

class SourceLink {
 public:
  // Chooses the first allowed transport that reaches the source, connects and imports all regions.
  // `local`: the receiver's own regions, one set per transport that it can use. A transport that
  // the system turns out to forbid while connecting is passed over, and the reason says so.
  static Result<std::unique_ptr<SourceLink>> open(const JobInternal& job, const SourcePeer& peer,
                                                  std::span<const RegisteredRegions> local,
                                                  std::span<const MissingTransport> unusable,
                                                  Deadline deadline);

  // Prepares a job per slot for what plan number `plan` reads from this source. Without effect when
  // that is bound already.
  Status bind(const ReadList& list, uint64_t plan, Deadline deadline);

  const std::string& worker() const { return peer_.record.worker; }
  const Digest& incarnation() const { return peer_.record.incarnation; }
  const Manifest& manifest() const { return *peer_.manifest; }
  TransportKind transport() const { return kind_; }
  const std::string& reason() const { return reason_; }
  std::string mechanism() const { return connection_->mechanism(); }
  Status alive() { return connection_->alive(); }

  // Reads all headers; directory() shows the words of the last success.
  Status read_directory(Deadline deadline);
  DirectoryView directory() const { return {words_}; }
  // Reads the header of one slot as it is now.
  Status read_header(uint32_t slot, HeaderWords* header, Deadline deadline);

  // One post at a time. An empty list is done at once.
  Status post(uint32_t slot);
  JobState poll();
  // True from post() until poll() or abort() has brought the job to its end.
  bool active() const { return active_; }
  uint64_t bytes_done() const;
  Status failure() const;  // why poll() said kFailed
  Status abort(Deadline deadline);

 private:
  explicit SourceLink(SourcePeer peer) : peer_(std::move(peer)) {}
  Status import_regions(const ManifestTransport& served, Deadline deadline);

  const SourcePeer peer_;
  TransportKind kind_ = TransportKind::kLocal;
  std::string reason_;
  std::span<const RegionId> local_;
  std::unique_ptr<Connection> connection_;
  std::vector<RemoteRegion> regions_;  // [slot * layout regions + region]
  RemoteRegion headers_ = 0;
  std::vector<uint64_t> words_;

  uint64_t bound_plan_ = 0;                     // 0: none
  std::vector<std::unique_ptr<ReadJob>> jobs_;  // per slot; after connection_: it goes first
  ReadJob* posted_ = nullptr;
  bool active_ = false;
};

}  // namespace wb
