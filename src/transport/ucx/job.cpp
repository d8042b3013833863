#include "transport/ucx/job.h"

#include <algorithm>

namespace wb::ucx {

Result<std::unique_ptr<RemoteMemory>> RemoteMemory::unpack(const Library& library,
                                                           ucp_ep_h endpoint,
                                                           const PackedMemory& packed) {
  auto memory = std::make_unique<RemoteMemory>();
  const ucs_status_t status = library.ep_rkey_unpack(endpoint, packed.rkey.data(), &memory->rkey);
  if (status != UCS_OK) return ucx_status(library, status, "unpacking a peer's UCX key");
  memory->library = &library;
  memory->address = packed.address;
  memory->bytes = packed.bytes;
  return memory;
}

RemoteMemory::~RemoteMemory() {
  if (library != nullptr) library->rkey_destroy(rkey);
}

Status UcxJob::start() {
  if (state_ == JobState::kActive) {
    return Status(Code::kFailedPrecondition, "the read job is already active");
  }
  state_ = JobState::kActive;
  status_ = Status();
  bytes_posted_ = 0;
  bytes_done_ = 0;
  cursor_ = {};
  return Status();
}

void UcxJob::stop(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void UcxJob::on_done(void* request, ucs_status_t status, void* self) {
  auto& job = *static_cast<UcxJob*>(self);
  --job.in_flight_;
  if (status != UCS_OK) job.stop(ucx_status(*job.library_, status, "a UCX read failed"));
  job.library_->request_free(request);
}

void UcxJob::post_some(const Library& library, const Endpoint& endpoint, uint32_t window,
                       uint64_t budget) {
  library_ = &library;
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMH;
  param.cb.send = on_done;
  param.user_data = this;
  while (!failed() && !all_posted() && in_flight_ < window && budget != 0) {
    const Piece& piece = pieces_[cursor_.piece];
    const uint64_t length = std::min(kMaxGet, piece.length - cursor_.byte);
    const uint64_t row = cursor_.row;
    const uint64_t remote =
        piece.remote + row * static_cast<uint64_t>(piece.remote_pitch) + cursor_.byte;
    std::byte* local =
        piece.local +
        static_cast<std::ptrdiff_t>(row * static_cast<uint64_t>(piece.local_pitch) + cursor_.byte);
    param.memh = piece.local_memory;
    void* request = library.get(endpoint.get(), local, length, remote, piece.rkey, &param);
    if (UCS_PTR_IS_ERR(request)) {
      stop(ucx_status(library, UCS_PTR_STATUS(request), "posting a UCX read"));
      return;
    }
    if (request != nullptr) ++in_flight_;  // else it is done already, without the callback
    bytes_posted_ += length;
    budget -= std::min(budget, length);
    cursor_.byte += length;
    if (cursor_.byte == piece.length) cursor_ = {cursor_.piece, row + 1, 0};
    if (cursor_.row == piece.count) cursor_ = {cursor_.piece + 1, 0, 0};
  }
  // Exact when nothing is in flight, and that is when a job ends.
  if (in_flight_ == 0 && !failed()) bytes_done_ = bytes_posted_;
}

}  // namespace wb::ucx
