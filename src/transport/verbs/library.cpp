#include "transport/verbs/library.h"

#include <dlfcn.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <mutex>

#include "base/symbols.h"

namespace wb::verbs {
namespace {

// The header wraps some names in macros that take arguments; these are the functions behind them.
#undef ibv_reg_mr
#undef ibv_query_port

class Library : public Verbs {
 public:
  static Result<std::shared_ptr<const Verbs>> load(const std::string& name) {
    void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return Status(Code::kUnsupported, "libibverbs is not usable here: " + std::string(dlerror()) +
                                            " (Debian: apt install libibverbs1 ibverbs-providers)");
    }
    std::shared_ptr<Library> library(new Library(name));
    const std::string missing = library->resolve(handle);
    if (!missing.empty()) {
      return Status(Code::kUnsupported,
                    name + " has no " + missing + ": rdma-core 32 or later is needed");
    }
    WB_RETURN_IF_ERROR(library->allow_fork());
    return std::shared_ptr<const Verbs>(std::move(library));
  }

  ibv_device** get_device_list(int* count) const override { return get_device_list_(count); }
  void free_device_list(ibv_device** list) const override { free_device_list_(list); }
  ibv_context* open_device(ibv_device* device) const override { return open_device_(device); }
  int close_device(ibv_context* context) const override { return close_device_(context); }
  int query_device(ibv_context* context, ibv_device_attr* out) const override {
    return query_device_(context, out);
  }
  // As the header's inline ibv_query_port: the exported function knows only the old struct.
  int query_port(ibv_context* context, uint8_t port, ibv_port_attr* out) const override {
    *out = {};
    verbs_context* extended = verbs_get_ctx_op(context, query_port);
    if (extended != nullptr) return extended->query_port(context, port, out, sizeof *out);
    return query_port_(context, port, reinterpret_cast<_compat_ibv_port_attr*>(out));
  }
  int query_gid(ibv_context* context, uint8_t port, uint32_t index,
                ibv_gid_entry* out) const override {
    return query_gid_ex_(context, port, index, out, 0, sizeof *out);
  }
  int query_pkey(ibv_context* context, uint8_t port, int index, __be16* out) const override {
    return query_pkey_(context, port, index, out);
  }
  ibv_pd* alloc_pd(ibv_context* context) const override { return alloc_pd_(context); }
  int dealloc_pd(ibv_pd* pd) const override { return dealloc_pd_(pd); }
  ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t bytes, unsigned access) const override {
    return reg_mr_iova2_(pd, address, bytes, reinterpret_cast<uint64_t>(address), access);
  }
  int dereg_mr(ibv_mr* mr) const override { return dereg_mr_(mr); }
  ibv_comp_channel* create_comp_channel(ibv_context* context) const override {
    return create_comp_channel_(context);
  }
  int destroy_comp_channel(ibv_comp_channel* channel) const override {
    return destroy_comp_channel_(channel);
  }
  ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) const override {
    return create_cq_(context, entries, nullptr, channel, 0);
  }
  int destroy_cq(ibv_cq* cq) const override { return destroy_cq_(cq); }
  int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq) const override {
    void* user = nullptr;
    return get_cq_event_(channel, cq, &user);
  }
  void ack_cq_events(ibv_cq* cq, unsigned count) const override { ack_cq_events_(cq, count); }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* init) const override {
    return create_qp_(pd, init);
  }
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) const override {
    return modify_qp_(qp, attr, mask);
  }
  int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) const override {
    return query_qp_(qp, attr, mask, init);
  }
  int destroy_qp(ibv_qp* qp) const override { return destroy_qp_(qp); }
  int get_async_event(ibv_context* context, ibv_async_event* event) const override {
    return get_async_event_(context, event);
  }
  void ack_async_event(ibv_async_event* event) const override { ack_async_event_(event); }

  int numa_node(const ibv_device* device) const override {
    std::ifstream file(std::string(device->ibdev_path) + "/device/numa_node");
    int node = -1;
    if (!(file >> node)) return -1;
    return node;
  }
  std::string origin() const override { return name_; }

 private:
  explicit Library(std::string name) : name_(std::move(name)) {}

  // The first name that the library does not have.
  std::string resolve(void* handle) {
    Symbols symbols(handle);
    symbols.get(get_device_list_, "ibv_get_device_list");
    symbols.get(free_device_list_, "ibv_free_device_list");
    symbols.get(open_device_, "ibv_open_device");
    symbols.get(close_device_, "ibv_close_device");
    symbols.get(query_device_, "ibv_query_device");
    symbols.get(query_port_, "ibv_query_port");
    symbols.get(query_gid_ex_, "_ibv_query_gid_ex");
    symbols.get(query_pkey_, "ibv_query_pkey");
    symbols.get(alloc_pd_, "ibv_alloc_pd");
    symbols.get(dealloc_pd_, "ibv_dealloc_pd");
    symbols.get(reg_mr_iova2_, "ibv_reg_mr_iova2");
    symbols.get(dereg_mr_, "ibv_dereg_mr");
    symbols.get(create_comp_channel_, "ibv_create_comp_channel");
    symbols.get(destroy_comp_channel_, "ibv_destroy_comp_channel");
    symbols.get(create_cq_, "ibv_create_cq");
    symbols.get(destroy_cq_, "ibv_destroy_cq");
    symbols.get(get_cq_event_, "ibv_get_cq_event");
    symbols.get(ack_cq_events_, "ibv_ack_cq_events");
    symbols.get(create_qp_, "ibv_create_qp");
    symbols.get(modify_qp_, "ibv_modify_qp");
    symbols.get(query_qp_, "ibv_query_qp");
    symbols.get(destroy_qp_, "ibv_destroy_qp");
    symbols.get(get_async_event_, "ibv_get_async_event");
    symbols.get(ack_async_event_, "ibv_ack_async_event");
    symbols.get(fork_init_, "ibv_fork_init");
    // Newer than the rest, and only says that fork_init is not needed.
    Symbols(handle).get(is_fork_initialized_, "ibv_is_fork_initialized");
    return symbols.missing();
  }

  // Before Linux 5.12 a fork moved the parent to new pages on its next write while the NIC went on
  // reading the old ones: weights of an old version without any error. fork_init prevents that.
  Status allow_fork() const {
    if (is_fork_initialized_ != nullptr && is_fork_initialized_() == IBV_FORK_UNNEEDED) {
      return Status();
    }
    const int error = fork_init_();
    if (error == 0) return Status();
    return Status(Code::kUnsupported,
                  "ibv_fork_init failed: on this kernel a fork() of this process could make peers "
                  "read old weights (call ibv_fork_init before anything else opens a device)")
        .with_errno(error);
  }

  const std::string name_;
  decltype(&ibv_get_device_list) get_device_list_ = nullptr;
  decltype(&ibv_free_device_list) free_device_list_ = nullptr;
  decltype(&ibv_open_device) open_device_ = nullptr;
  decltype(&ibv_close_device) close_device_ = nullptr;
  decltype(&ibv_query_device) query_device_ = nullptr;
  decltype(&ibv_query_port) query_port_ = nullptr;
  decltype(&_ibv_query_gid_ex) query_gid_ex_ = nullptr;
  decltype(&ibv_query_pkey) query_pkey_ = nullptr;
  decltype(&ibv_alloc_pd) alloc_pd_ = nullptr;
  decltype(&ibv_dealloc_pd) dealloc_pd_ = nullptr;
  decltype(&ibv_reg_mr_iova2) reg_mr_iova2_ = nullptr;
  decltype(&ibv_dereg_mr) dereg_mr_ = nullptr;
  decltype(&ibv_create_comp_channel) create_comp_channel_ = nullptr;
  decltype(&ibv_destroy_comp_channel) destroy_comp_channel_ = nullptr;
  decltype(&ibv_create_cq) create_cq_ = nullptr;
  decltype(&ibv_destroy_cq) destroy_cq_ = nullptr;
  decltype(&ibv_get_cq_event) get_cq_event_ = nullptr;
  decltype(&ibv_ack_cq_events) ack_cq_events_ = nullptr;
  decltype(&ibv_create_qp) create_qp_ = nullptr;
  decltype(&ibv_modify_qp) modify_qp_ = nullptr;
  decltype(&ibv_query_qp) query_qp_ = nullptr;
  decltype(&ibv_destroy_qp) destroy_qp_ = nullptr;
  decltype(&ibv_get_async_event) get_async_event_ = nullptr;
  decltype(&ibv_ack_async_event) ack_async_event_ = nullptr;
  decltype(&ibv_fork_init) fork_init_ = nullptr;
  ibv_fork_status (*is_fork_initialized_)() = nullptr;
};

}  // namespace

Result<std::shared_ptr<const Verbs>> open_library(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Verbs>> opened;
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(name); found != opened.end()) return found->second;
  WB_ASSIGN_OR_RETURN(auto library, Library::load(name));
  opened.emplace(name, library);
  return library;
}

}  // namespace wb::verbs
