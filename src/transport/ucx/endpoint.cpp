#include "transport/ucx/endpoint.h"

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <sstream>
#include <string_view>
#include <vector>

namespace wb::ucx {

void Endpoint::on_error(void* self, ucp_ep_h, ucs_status_t status) {
  auto& endpoint = *static_cast<Endpoint*>(self);
  if (!endpoint.status_.ok()) return;
  endpoint.status_ = Status(Code::kPeerLost, std::string("UCX lost the peer: ") +
                                                 endpoint.library().status_string(status))
                         .with_vendor(static_cast<int64_t>(status));
}

Result<std::shared_ptr<Endpoint>> Endpoint::make(std::shared_ptr<Worker> worker,
                                                 const std::string& peer_address) {
  std::shared_ptr<Endpoint> endpoint(new Endpoint(std::move(worker)));
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer_address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = endpoint.get();
  const Library& library = endpoint->library();
  const ucs_status_t status =
      library.ep_create(endpoint->worker().get(), &params, &endpoint->endpoint_);
  if (status != UCS_OK) {
    endpoint->endpoint_ = nullptr;
    endpoint->closed_ = true;
    return ucx_status(library, status,
                      "connecting with UCX (no transport of both sides can reach and watch the "
                      "peer: look at UCX_TLS and UCX_NET_DEVICES, and whether the host is a "
                      "loopback address)");
  }
  return endpoint;
}

Endpoint::~Endpoint() {
  // A request that outlives this second belongs to a device that is gone; the worker's end reaps
  // it.
  (void)close(Deadline::after(std::chrono::seconds(2)));
}

void Endpoint::drain(Deadline deadline) const {
  const Deadline enough = deadline.capped(std::chrono::seconds(1));
  while (*reads_ != 0 && status_.ok() && !enough.expired()) worker_->progress();
}

Status Endpoint::close(Deadline deadline) {
  if (closed_) return Status();
  const Library& library = this->library();
  if (closing_ == nullptr) {
    drain(deadline);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    closing_ = library.ep_close(endpoint_, &param);
    if (status_.ok()) status_ = Status(Code::kCancelled, "the ucx connection was closed");
  }
  if (UCS_PTR_IS_PTR(closing_)) {
    while (library.request_check_status(closing_) == UCS_INPROGRESS) {
      if (deadline.expired()) {
        return Status(Code::kDeadline, "UCX did not close its endpoint in time");
      }
      worker_->progress();
    }
    library.request_free(closing_);
  }
  closed_ = true;
  endpoint_ = nullptr;
  return Status();
}

std::string Endpoint::describe() const {
  char* text = nullptr;
  size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  if (stream == nullptr) return "";
  library().ep_print_info(endpoint_, stream);
  fclose(stream);
  std::string description(text, size);
  free(text);
  return description;
}

namespace {

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

// Transports whose lanes read remote memory without the peer's processor ...
bool reads_by_card(std::string_view transport) {
  return starts_with_any(transport, {"rc_", "dc_", "gga_"});
}
// ... or with the reader's own.
bool reads_by_itself(std::string_view transport) {
  return starts_with_any(transport, {"cma", "knem", "xpmem", "cuda_ipc", "rocm_ipc", "ze_ipc"});
}

}  // namespace

// A lane reads: "# lane[0]: 5:tcp/lo.0 md[1] -> md[1]/tcp/sysdev[255] rma_bw#0 am am_bw#0 ...": the
// transport is between the second colon and the slash, the uses follow. Without a lane that is used
// for remote memory and can read it, UCX sends messages, which the source answers.
Lanes lanes_of(const std::string& description) {
  std::vector<std::string> readers;
  std::vector<std::string> messengers;
  bool by_card = true;
  std::istringstream lines(description);
  for (std::string line; std::getline(lines, line);) {
    const size_t lane = line.find("lane[");
    const size_t index_end = lane == std::string::npos ? lane : line.find("]:", lane);
    const size_t colon = index_end == std::string::npos ? index_end : line.find(':', index_end + 2);
    const size_t slash = colon == std::string::npos ? colon : line.find('/', colon);
    if (slash == std::string::npos) continue;
    const std::string transport = line.substr(colon + 1, slash - colon - 1);
    const bool remote_memory = line.find(" rma", slash) != std::string::npos;
    const bool reads = remote_memory && (reads_by_card(transport) || reads_by_itself(transport));
    if (reads && !reads_by_card(transport)) by_card = false;
    auto& names = reads ? readers : messengers;
    if (std::find(names.begin(), names.end(), transport) == names.end()) names.push_back(transport);
  }
  Lanes lanes;
  lanes.source_helps = readers.empty();
  lanes.by_processor = readers.empty() || !by_card;
  for (const std::string& name : readers.empty() ? messengers : readers) {
    lanes.transports += (lanes.transports.empty() ? "" : "+") + name;
  }
  if (lanes.transports.empty()) lanes.transports = "unknown";
  return lanes;
}

}  // namespace wb::ucx
