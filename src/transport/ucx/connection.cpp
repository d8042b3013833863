#include "transport/ucx/connection.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/checked.h"
#include "transport/run_check.h"

namespace wb::ucx {
namespace {

constexpr std::string_view kRoom = "transport";
// One poll() posts about this much and turns UCX's progress about this often.
constexpr uint64_t kPollBytes = 4u << 20;
constexpr int kPollTurns = 64;
// A completed job's stamps come in one small read each; a source that answered all data answers
// these.
constexpr auto kStampPatience = std::chrono::seconds(5);

Status not_imported(RemoteRegion region) {
  return Status(Code::kInvalidArgument,
                "remote region " + std::to_string(region) + " was not imported here");
}

}  // namespace

Result<std::unique_ptr<Connection>> UcxConnection::make(std::shared_ptr<const DomainState> domain,
                                                        const UcxAddress& peer,
                                                        std::unique_ptr<Exchange> exchange) {
  WB_ASSIGN_OR_RETURN(auto worker, Worker::make(domain->context));
  WB_ASSIGN_OR_RETURN(auto endpoint, Endpoint::make(std::move(worker), peer.worker));
  return std::unique_ptr<Connection>(
      new UcxConnection(std::move(domain), peer, std::move(exchange), std::move(endpoint)));
}

UcxConnection::UcxConnection(std::shared_ptr<const DomainState> domain, const UcxAddress& peer,
                             std::unique_ptr<Exchange> exchange, std::shared_ptr<Endpoint> endpoint)
    : domain_(std::move(domain)),
      peer_(peer.incarnation),
      exchange_(std::move(exchange)),
      endpoint_(std::move(endpoint)) {}

UcxConnection::~UcxConnection() {
  if (unfinished_ != nullptr && endpoint_->status().ok()) {
    (void)wait_for_unfinished(Deadline::after(std::chrono::seconds(1)));
  }
  // Requests end with the endpoint; only then may the memory that they land in go.
  (void)endpoint_->close(Deadline::after(std::chrono::seconds(2)));
  if (unfinished_ != nullptr) {
    (void)wait_for_unfinished(Deadline::after(std::chrono::seconds(1)));
  }
}

Status UcxConnection::check_region(RemoteRegion region) const {
  return region < regions_.size() ? Status() : not_imported(region);
}

Status UcxConnection::make_room(uint64_t bytes) {
  if (room_ != nullptr && room_->allocation()->bytes() >= bytes) return Status();
  // Nothing lands in the old room any more.
  if (unfinished_ != nullptr) {
    return Status(Code::kUnavailable, "an earlier read of words has not ended yet");
  }
  WB_ASSIGN_OR_RETURN(auto memory,
                      Allocation::host(round_up(bytes, 4096), {.name = "weightbridge-words"}));
  WB_ASSIGN_OR_RETURN(room_, Memory::map(domain_->context, std::move(memory)));
  return Status();
}

Status UcxConnection::help_wire_up(Deadline deadline) {
  if (wired_) return Status();
  return exchange_->call("", deadline).status();
}

Status UcxConnection::wait_for_unfinished(Deadline deadline) {
  auto help_at = Deadline::after(std::chrono::milliseconds(1));
  while (true) {
    const ucs_status_t status = library().request_check_status(unfinished_);
    if (status != UCS_INPROGRESS) {
      library().request_free(std::exchange(unfinished_, nullptr));
      return status == UCS_OK ? Status() : ucx_status(library(), status, "a UCX read failed");
    }
    if (deadline.expired()) {
      return Status(Code::kDeadline, "the source did not answer a UCX read in time");
    }
    if (endpoint_->worker().progress() == 0 && help_at.expired() && endpoint_->status().ok()) {
      WB_RETURN_IF_ERROR(help_wire_up(deadline));
      help_at = Deadline::after(std::chrono::milliseconds(1));
    }
  }
}

Status UcxConnection::get_now(const RemoteMemory& memory, uint64_t remote, uint64_t at,
                              uint64_t bytes, Deadline deadline) {
  if (!endpoint_->status().ok()) return endpoint_->status();
  if (unfinished_ != nullptr) {
    // Its data is of no use, its end is: it writes where this read lands.
    if (Status ended = wait_for_unfinished(deadline); ended.code() == Code::kDeadline) return ended;
  }
  if (!endpoint_->status().ok()) return endpoint_->status();
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
  param.memh = room_->get();
  void* request = library().get(endpoint_->get(), room_->allocation()->data() + at, bytes, remote,
                                memory.rkey, &param);
  if (UCS_PTR_IS_ERR(request)) {
    return ucx_status(library(), UCS_PTR_STATUS(request), "posting a UCX read");
  }
  if (request == nullptr) return Status();
  unfinished_ = request;
  return wait_for_unfinished(deadline);
}

Result<RemoteRegion> UcxConnection::import_region(std::string_view key, Deadline deadline) {
  if (!endpoint_->status().ok()) return endpoint_->status();
  auto region = std::make_shared<RemoteRecord>();
  WB_ASSIGN_OR_RETURN(region->key, decode_key(key));
  if (region->key.incarnation != peer_) {
    return Status(Code::kMismatch,
                  "the region's key belongs to another life of the peer: fetch "
                  "its manifest again");
  }
  if (region->key.slot >= kStampSlots || region->key.stamps.bytes != kStampTableBytes) {
    return Status(Code::kBadData, "a region key names a slot that no source has");
  }
  WB_ASSIGN_OR_RETURN(region->memory, RemoteMemory::unpack(endpoint_, region->key.region));
  if (stamps_ == nullptr) {
    WB_ASSIGN_OR_RETURN(stamps_, RemoteMemory::unpack(endpoint_, region->key.stamps));
  }
  WB_RETURN_IF_ERROR(make_room(4096));
  Status registered = check_stamp(*region, deadline);
  if (registered.code() == Code::kPeerLost && endpoint_->status().ok()) {
    return Status(Code::kNotFound, "the source has no region by that key any more");
  }
  WB_RETURN_IF_ERROR(registered);
  if (!wired_) {
    wired_ = true;
    lanes_ = lanes_of(endpoint_->describe());
    domain_->log.write(lanes_.source_helps ? LogLevel::kWarn : LogLevel::kInfo, kRoom,
                       "connected with UCX", {{"mechanism", mechanism()}});
  }
  regions_.push_back(std::move(region));
  return static_cast<RemoteRegion>(regions_.size() - 1);
}

Status UcxConnection::check_stamp(const RemoteRecord& region, Deadline deadline) {
  WB_RETURN_IF_ERROR(get_now(*stamps_, stamps_->address + stamp_offset(region.key.slot), 0,
                             sizeof(uint64_t), deadline));
  uint64_t stamp = 0;
  std::memcpy(&stamp, room_->allocation()->data(), sizeof stamp);
  if (stamp == region.key.stamp) return Status();
  return Status(Code::kPeerLost, "the source deregistered the memory while it was read");
}

Status UcxConnection::check_stamps(const UcxJob& job, Deadline deadline) {
  for (const auto& region : job.remote()) {
    WB_RETURN_IF_ERROR(check_stamp(*region, deadline));
  }
  return Status();
}

Result<std::unique_ptr<ReadJob>> UcxConnection::prepare(const ReadList& list,
                                                        std::span<const RemoteRegion> remote,
                                                        std::span<const RegionId> local) {
  std::vector<std::shared_ptr<const RemoteRecord>> remote_records;
  std::vector<std::shared_ptr<const Memory>> local_memory;
  std::vector<uint64_t> remote_bytes;
  std::vector<uint64_t> local_bytes;
  for (const RemoteRegion region : remote) {
    WB_RETURN_IF_ERROR(check_region(region));
    remote_records.push_back(regions_[region]);
    remote_bytes.push_back(regions_[region]->memory->bytes);
  }
  for (const RegionId region : local) {
    WB_ASSIGN_OR_RETURN(const auto record, domain_->find(region));
    if (record->access != Access::kLocalTarget) {
      return Status(Code::kInvalidArgument,
                    "region " + std::to_string(region) + " is not registered as a local target");
    }
    local_memory.push_back(record->memory);
    local_bytes.push_back(record->memory->allocation()->bytes());
  }
  WB_RETURN_IF_ERROR(check_list(list, remote_bytes, local_bytes).status());

  std::vector<Piece> pieces;
  pieces.reserve(list.runs.size());
  for (const Run& run : list.runs) {
    if (run.count == 0 || run.length == 0) continue;
    const RemoteMemory& from = *remote_records[run.remote_region]->memory;
    const Memory& to = *local_memory[run.local_region];
    pieces.push_back({from.address + run.remote_offset, to.allocation()->data() + run.local_offset,
                      run.length, run.count, run.remote_pitch, run.local_pitch, from.rkey,
                      to.get()});
  }
  return std::unique_ptr<ReadJob>(std::make_unique<UcxJob>(
      this, endpoint_, std::move(pieces), std::move(remote_records), std::move(local_memory)));
}

Result<UcxJob*> UcxConnection::own(ReadJob& job) const {
  auto* ucx = dynamic_cast<UcxJob*>(&job);
  if (ucx != nullptr && ucx->owner() == this) return ucx;
  return Status(Code::kInvalidArgument, "the read job was prepared by another connection");
}

Status UcxConnection::post(ReadJob& job) {
  WB_ASSIGN_OR_RETURN(UcxJob* const own_job, own(job));
  if (own_job->state() != JobState::kActive) WB_RETURN_IF_ERROR(endpoint_->status());
  return own_job->start();
}

JobState UcxConnection::poll(ReadJob& job) {
  const auto found = own(job);
  if (!found.ok()) return job.state();
  UcxJob& own_job = **found;
  if (own_job.state() != JobState::kActive) return own_job.state();
  if (endpoint_->status().ok()) {
    own_job.post_some(domain_->options.window, kPollBytes);
  } else {
    own_job.stop(endpoint_->status());
  }
  for (int turn = 0; turn < kPollTurns && own_job.in_flight() != 0; ++turn)
    endpoint_->worker().progress();
  if (own_job.in_flight() != 0) return JobState::kActive;
  if (!own_job.failed() && !own_job.all_posted()) return JobState::kActive;
  if (!own_job.failed()) {
    own_job.stop(check_stamps(own_job, Deadline::after(kStampPatience)));
  }
  own_job.end(own_job.failed() ? JobState::kFailed : JobState::kDone);
  return own_job.state();
}

Status UcxConnection::abort(ReadJob& job, Deadline deadline) {
  WB_ASSIGN_OR_RETURN(UcxJob* const own_job, own(job));
  if (own_job->state() != JobState::kActive) return Status();
  own_job->stop(Status(Code::kCancelled, "the read job was aborted"));
  endpoint_->drain(deadline);
  if (own_job->in_flight() != 0) {
    WB_RETURN_IF_ERROR(endpoint_->close(deadline));
    while (own_job->in_flight() != 0) {
      if (deadline.expired()) return Status(Code::kDeadline, "UCX did not end its reads in time");
      endpoint_->worker().progress();
    }
  }
  own_job->end(JobState::kFailed);
  return Status();
}

// UCX completes a read when its bytes are in local memory, so waiting for each one orders it with
// those before and after. A network card reads aligned words whole; where a processor copies for
// it (cma, messages), two reads that agree are taken for one, as in local/connection.cpp.
Status UcxConnection::read_words(RemoteRegion region, uint64_t offset, std::span<uint64_t> words,
                                 Deadline deadline) {
  WB_RETURN_IF_ERROR(check_region(region));
  const RemoteRecord& record = *regions_[region];
  const RemoteMemory& memory = *record.memory;
  if (words.size() > memory.bytes / sizeof(uint64_t) ||
      !range_inside(offset, words.size_bytes(), memory.bytes) ||
      (memory.address + offset) % sizeof(uint64_t) != 0) {
    return Status(Code::kInvalidArgument,
                  "reading words outside the remote region, or not at a multiple of 8");
  }
  if (words.empty()) return Status();
  const uint64_t bytes = words.size_bytes();
  WB_RETURN_IF_ERROR(make_room(2 * bytes));
  const std::byte* room = room_->allocation()->data();
  while (true) {
    WB_RETURN_IF_ERROR(get_now(memory, memory.address + offset, 0, bytes, deadline));
    if (!lanes_.by_processor) break;
    WB_RETURN_IF_ERROR(get_now(memory, memory.address + offset, bytes, bytes, deadline));
    if (std::memcmp(room, room + bytes, bytes) == 0) break;
    if (deadline.expired()) {
      return Status(Code::kDeadline, "the words changed during every read until the deadline");
    }
  }
  std::memcpy(words.data(), room, bytes);
  return check_stamp(record, deadline);
}

Status UcxConnection::alive() {
  endpoint_->worker().progress();
  return endpoint_->status();
}

std::string UcxConnection::mechanism() const {
  if (!wired_) return "ucx, not connected yet";
  return "ucx " + lanes_.transports + (lanes_.source_helps ? " (source helps)" : " (one-sided)");
}

}  // namespace wb::ucx
