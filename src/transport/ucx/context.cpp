#include "transport/ucx/context.h"

namespace wb::ucx {
namespace {

Status modify(const Library& library, ucp_config_t* config, const char* name,
              const std::string& value) {
  if (value.empty()) return Status();
  const ucs_status_t status = library.config_modify(config, name, value.c_str());
  if (status == UCS_OK) return Status();
  return Status(Code::kInvalidArgument, "UCX refuses UCX_" + std::string(name) + "=" + value +
                                            ": " + library.status_string(status))
      .with_vendor(static_cast<int64_t>(status));
}

Status configure(const Library& library, ucp_config_t* config, const UcxOptions& options) {
  WB_RETURN_IF_ERROR(modify(library, config, "TLS", options.tls));
  WB_RETURN_IF_ERROR(modify(library, config, "NET_DEVICES", options.net_devices));
  // Idle endpoints notice a dead peer within seconds, not within UCX's 20.
  return modify(library, config, "KEEPALIVE_INTERVAL", "1s");
}

}  // namespace

Result<std::shared_ptr<const Context>> Context::make(const UcxOptions& options) {
  WB_ASSIGN_OR_RETURN(const auto library, Library::open(options.library));
  ucp_config_t* config = nullptr;
  ucs_status_t status = library->config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return ucx_status(*library, status, "reading UCX's configuration");
  const Status configured = configure(*library, config, options);
  if (!configured.ok()) {
    library->config_release(config);
    return configured;
  }
  ucp_params_t params{};
  params.field_mask =
      UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  params.name = "weightbridge";
  ucp_context_h context = nullptr;
  status = library->init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
  library->config_release(config);
  if (status != UCS_OK) {
    return ucx_status(*library, status,
                      "starting UCX (UCX_TLS=" + (options.tls.empty() ? "all" : options.tls) + ")");
  }
  return std::shared_ptr<const Context>(new Context(library, context));
}

Context::~Context() { library_->cleanup(context_); }

Result<std::shared_ptr<Worker>> Worker::make(std::shared_ptr<const Context> context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h worker = nullptr;
  const ucs_status_t status = context->library().worker_create(context->get(), &params, &worker);
  if (status != UCS_OK) return ucx_status(context->library(), status, "creating a UCX worker");
  return std::shared_ptr<Worker>(new Worker(std::move(context), worker));
}

Worker::~Worker() { context_->library().worker_destroy(worker_); }

void Worker::come_to_rest(Deadline deadline) const {
  const Library& library = context_->library();
  const ucp_request_param_t nothing{};
  while (!deadline.expired()) {
    progress();
    void* const flush = library.worker_flush_nbx(worker_, &nothing);
    if (flush == nullptr || UCS_PTR_IS_ERR(flush)) return;
    while (library.request_check_status(flush) == UCS_INPROGRESS && !deadline.expired()) {
      progress();
    }
    library.request_free(flush);  // UCX frees one that has not ended when it ends
  }
}

Result<std::string> Worker::address() const {
  const Library& library = context_->library();
  ucp_address_t* address = nullptr;
  size_t length = 0;
  const ucs_status_t status = library.worker_get_address(worker_, &address, &length);
  if (status != UCS_OK) return ucx_status(library, status, "asking for the UCX worker's address");
  std::string bytes(reinterpret_cast<const char*>(address), length);
  library.worker_release_address(worker_, address);
  return bytes;
}

Result<int> Worker::event_fd() const {
  int fd = -1;
  const ucs_status_t status = context_->library().worker_get_efd(worker_, &fd);
  if (status != UCS_OK) {
    return ucx_status(context_->library(), status, "asking for the UCX worker's event descriptor");
  }
  return fd;
}

Result<bool> Worker::arm() const {
  const ucs_status_t status = context_->library().worker_arm(worker_);
  if (status == UCS_OK) return true;
  if (status == UCS_ERR_BUSY) return false;
  return ucx_status(context_->library(), status, "arming the UCX worker");
}

Result<std::shared_ptr<const Memory>> Memory::map(std::shared_ptr<const Context> context,
                                                  std::shared_ptr<Allocation> allocation) {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_PROT | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = allocation->data();
  params.length = allocation->bytes();
  // Network cards enforce that nobody writes from outside. What UCX emulates with messages (TCP) is
  // not checked against any key: docs/security.md.
  params.prot =
      UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_LOCAL_WRITE | UCP_MEM_MAP_PROT_REMOTE_READ;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  ucp_mem_h memory = nullptr;
  const ucs_status_t status = context->library().mem_map(context->get(), &params, &memory);
  if (status != UCS_OK) {
    return ucx_status(context->library(), status,
                      "registering " + std::to_string(allocation->bytes()) +
                          " bytes with UCX (for RDMA devices, look at ulimit -l)");
  }
  return std::shared_ptr<const Memory>(
      new Memory(std::move(context), std::move(allocation), memory));
}

// Fails only for handles that this class never holds.
Memory::~Memory() { (void)context_->library().mem_unmap(context_->get(), memory_); }

Result<std::string> Memory::pack() const {
  const Library& library = context_->library();
  void* buffer = nullptr;
  size_t length = 0;
  const ucs_status_t status = library.rkey_pack(context_->get(), memory_, &buffer, &length);
  if (status != UCS_OK) return ucx_status(library, status, "packing a UCX remote key");
  std::string bytes(static_cast<const char*>(buffer), length);
  library.rkey_buffer_release(buffer);
  return bytes;
}

}  // namespace wb::ucx
