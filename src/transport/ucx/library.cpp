#include "transport/ucx/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <signal.h>

#include <array>
#include <map>
#include <mutex>
#include <string>

#include "base/sanitizer.h"
#include "base/symbols.h"

namespace wb::ucx {
namespace {

// libucs installs handlers for these in its constructor, to print a backtrace. They belong to the
// embedding program: taken back at once.
class KeepSignalHandlers {
 public:
  KeepSignalHandlers() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &before_[i]);
  }
  ~KeepSignalHandlers() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  KeepSignalHandlers(const KeepSignalHandlers&) = delete;
  KeepSignalHandlers& operator=(const KeepSignalHandlers&) = delete;

 private:
  static constexpr std::array<int, 4> kSignals = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
  std::array<struct sigaction, 4> before_{};
};

// A program linked with -rdynamic that has a UCX of its own stands first in the dynamic linker's
// search: our UCX would call its functions. Then, and only then, each library looks in itself and
// its needs first; sanitizers refuse that.
int open_flags() {
  const int flags = RTLD_NOW | RTLD_LOCAL;
#if defined(WB_ASAN) || defined(WB_TSAN)
  return flags;
#else
  return dlsym(RTLD_DEFAULT, "ucs_init") == nullptr ? flags : flags | RTLD_DEEPBIND;
#endif
}

// UCX opens its modules itself, without that flag. It gets those that are open already, so they are
// opened here first. What does not open is UCX's to report.
void open_modules(const Library& library, int flags) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(library.init_version), &info) == 0) return;
  std::string pattern(info.dli_fname);
  pattern.erase(pattern.rfind('/') + 1);
  pattern += "ucx/libuc*.so.[0-9]";
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) dlopen(found.gl_pathv[i], flags);
  }
  globfree(&found);
}

Result<std::shared_ptr<const Library>> load(const std::string& name) {
  const KeepSignalHandlers keep;
  const int flags = open_flags();
  void* handle = dlopen(name.c_str(), flags);
  if (handle == nullptr) {
    return Status(Code::kUnsupported, "UCX is not usable here: " + std::string(dlerror()) +
                                          " (Debian: apt install libucx0)");
  }
  auto library = std::make_shared<Library>();
  Symbols symbols(handle);
  decltype(&ucp_get_version) get_version = nullptr;
  symbols.get(get_version, "ucp_get_version");
  symbols.get(library->config_read, "ucp_config_read");
  symbols.get(library->config_modify, "ucp_config_modify");
  symbols.get(library->config_release, "ucp_config_release");
  symbols.get(library->init_version, "ucp_init_version");
  symbols.get(library->cleanup, "ucp_cleanup");
  symbols.get(library->worker_create, "ucp_worker_create");
  symbols.get(library->worker_destroy, "ucp_worker_destroy");
  symbols.get(library->worker_flush_nbx, "ucp_worker_flush_nbx");
  symbols.get(library->worker_get_address, "ucp_worker_get_address");
  symbols.get(library->worker_release_address, "ucp_worker_release_address");
  symbols.get(library->worker_get_efd, "ucp_worker_get_efd");
  symbols.get(library->worker_arm, "ucp_worker_arm");
  symbols.get(library->worker_progress, "ucp_worker_progress");
  symbols.get(library->ep_create, "ucp_ep_create");
  symbols.get(library->ep_close, "ucp_ep_close_nbx");
  symbols.get(library->ep_print_info, "ucp_ep_print_info");
  symbols.get(library->mem_map, "ucp_mem_map");
  symbols.get(library->mem_unmap, "ucp_mem_unmap");
  symbols.get(library->rkey_pack, "ucp_rkey_pack");
  symbols.get(library->rkey_buffer_release, "ucp_rkey_buffer_release");
  symbols.get(library->ep_rkey_unpack, "ucp_ep_rkey_unpack");
  symbols.get(library->rkey_destroy, "ucp_rkey_destroy");
  symbols.get(library->get, "ucp_get_nbx");
  symbols.get(library->request_check_status, "ucp_request_check_status");
  symbols.get(library->request_free, "ucp_request_free");
  symbols.get(library->status_string, "ucs_status_string");
  if (!symbols.missing().empty()) {
    return Status(Code::kUnsupported,
                  name + " has no " + symbols.missing() + ": UCX 1.13 or later is needed");
  }
  if ((flags & RTLD_DEEPBIND) != 0) open_modules(*library, flags);
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  get_version(&major, &minor, &release);
  library->version =
      std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
  // Fields of the parameter structs and request attributes that are used here came with 1.13.
  if (major != 1 || minor < 13) {
    return Status(Code::kUnsupported,
                  name + " is UCX " + library->version + ": 1.13 or a later 1.x is needed");
  }
  return std::shared_ptr<const Library>(library);
}

Code code_of(ucs_status_t status) {
  switch (status) {
    case UCS_ERR_NO_MEMORY:
    case UCS_ERR_NO_RESOURCE:
      return Code::kNoMemory;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_NO_DEVICE:
    case UCS_ERR_SOME_CONNECTS_FAILED:
      return Code::kUnavailable;
    case UCS_ERR_TIMED_OUT:
      return Code::kDeadline;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
      return Code::kUnsupported;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_OUT_OF_RANGE:
      return Code::kInvalidArgument;
    // What an endpoint in peer error mode reports once the other side is gone.
    case UCS_ERR_IO_ERROR:
    case UCS_ERR_CANCELED:
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
      return Code::kPeerLost;
    default:
      return UCS_IS_LINK_ERROR(status) || UCS_IS_ENDPOINT_ERROR(status) ? Code::kPeerLost
                                                                        : Code::kIo;
  }
}

}  // namespace

Result<std::shared_ptr<const Library>> Library::open(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Library>> opened;
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(name); found != opened.end()) return found->second;
  WB_ASSIGN_OR_RETURN(auto library, load(name));
  opened.emplace(name, library);
  return library;
}

Status ucx_status(const Library& library, ucs_status_t status, const std::string& what) {
  return Status(code_of(status), what + ": " + library.status_string(status))
      .with_vendor(static_cast<int64_t>(status));
}

}  // namespace wb::ucx
