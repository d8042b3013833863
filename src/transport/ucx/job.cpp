#include "transport/ucx/job.h"

#include <algorithm>
#include <chrono>

namespace wb::ucx {

Result<std::unique_ptr<RemoteMemory>> RemoteMemory::unpack(std::shared_ptr<Endpoint> endpoint,
                                                           const PackedMemory& packed) {
  ucp_rkey_h rkey = nullptr;
  const Library& library = endpoint->library();
  const ucs_status_t status = library.ep_rkey_unpack(endpoint->get(), packed.rkey.data(), &rkey);
  if (status != UCS_OK) return ucx_status(library, status, "unpacking a peer's UCX key");
  auto memory = std::make_unique<RemoteMemory>();
  memory->endpoint = std::move(endpoint);
  memory->rkey = rkey;
  memory->address = packed.address;
  memory->bytes = packed.bytes;
  return memory;
}

RemoteMemory::~RemoteMemory() {
  if (rkey != nullptr) endpoint->library().rkey_destroy(rkey);
}

UcxJob::UcxJob(const Connection* owner, std::shared_ptr<Endpoint> endpoint,
               std::vector<Piece> pieces, std::vector<std::shared_ptr<const RemoteRecord>> remote,
               std::vector<std::shared_ptr<const Memory>> local)
    : owner_(owner),
      endpoint_(std::move(endpoint)),
      pieces_(std::move(pieces)),
      remote_(std::move(remote)),
      flight_(std::make_unique<Flight>()) {
  flight_->library = &endpoint_->library();
  flight_->local = std::move(local);
  flight_->endpoint_reads = endpoint_->reads();
}

UcxJob::~UcxJob() {
  if (flight_->reads == 0) return;
  endpoint_->drain(Deadline::after(std::chrono::seconds(1)));
  if (flight_->reads == 0) return;
  const Deadline deadline = Deadline::after(std::chrono::seconds(1));
  // What counts is whether the reads have ended, which the loop sees.
  (void)endpoint_->close(deadline);
  while (flight_->reads != 0 && !deadline.expired()) endpoint_->worker().progress();
  if (flight_->reads != 0) (void)flight_.release();
}

Status UcxJob::start() {
  if (state_ == JobState::kActive) {
    return Status(Code::kFailedPrecondition, "the read job is already active");
  }
  state_ = JobState::kActive;
  flight_->failure = Status();
  bytes_posted_ = 0;
  bytes_done_ = 0;
  cursor_ = {};
  return Status();
}

void UcxJob::stop(Status status) {
  if (!failed()) flight_->failure = std::move(status);
}

void UcxJob::on_done(void* request, ucs_status_t status, void* flight) {
  auto& self = *static_cast<Flight*>(flight);
  --self.reads;
  --*self.endpoint_reads;
  if (status != UCS_OK && self.failure.ok()) {
    self.failure = ucx_status(*self.library, status, "a UCX read failed");
  }
  self.library->request_free(request);
}

void UcxJob::post_some(uint32_t window, uint64_t budget) {
  const Library& library = endpoint_->library();
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMH;
  param.cb.send = on_done;
  param.user_data = flight_.get();
  while (!failed() && !all_posted() && flight_->reads < window && budget != 0) {
    const Piece& piece = pieces_[cursor_.piece];
    const uint64_t length = std::min(kMaxGet, piece.length - cursor_.byte);
    const uint64_t row = cursor_.row;
    const uint64_t remote =
        piece.remote + row * static_cast<uint64_t>(piece.remote_pitch) + cursor_.byte;
    std::byte* local =
        piece.local +
        static_cast<std::ptrdiff_t>(row * static_cast<uint64_t>(piece.local_pitch) + cursor_.byte);
    param.memh = piece.local_memory;
    void* request = library.get(endpoint_->get(), local, length, remote, piece.rkey, &param);
    if (UCS_PTR_IS_ERR(request)) {
      stop(ucx_status(library, UCS_PTR_STATUS(request), "posting a UCX read"));
      return;
    }
    if (request != nullptr) {  // else it is done already, without the callback
      ++flight_->reads;
      ++*flight_->endpoint_reads;
    }
    bytes_posted_ += length;
    budget -= std::min(budget, length);
    cursor_.byte += length;
    if (cursor_.byte == piece.length) cursor_ = {cursor_.piece, row + 1, 0};
    if (cursor_.row == piece.count) cursor_ = {cursor_.piece + 1, 0, 0};
  }
  // Exact when nothing is in flight, and that is when a job ends.
  if (flight_->reads == 0 && !failed()) bytes_done_ = bytes_posted_;
}

}  // namespace wb::ucx
