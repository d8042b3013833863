// libucp, opened at run time: the functions that this room calls, resolved by name.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace wb::ucx {

struct Library {
  std::string version;  // of the library that was found: "1.13.1"

  decltype(&ucp_config_read) config_read = nullptr;
  decltype(&ucp_config_modify) config_modify = nullptr;
  decltype(&ucp_config_release) config_release = nullptr;
  decltype(&ucp_init_version) init_version = nullptr;
  decltype(&ucp_cleanup) cleanup = nullptr;
  decltype(&ucp_worker_create) worker_create = nullptr;
  decltype(&ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&ucp_worker_flush_nbx) worker_flush_nbx = nullptr;
  decltype(&ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&ucp_worker_arm) worker_arm = nullptr;
  decltype(&ucp_worker_progress) worker_progress = nullptr;
  decltype(&ucp_ep_create) ep_create = nullptr;
  decltype(&ucp_ep_close_nbx) ep_close = nullptr;
  decltype(&ucp_ep_print_info) ep_print_info = nullptr;
  decltype(&ucp_mem_map) mem_map = nullptr;
  decltype(&ucp_mem_unmap) mem_unmap = nullptr;
  decltype(&ucp_rkey_pack) rkey_pack = nullptr;
  decltype(&ucp_rkey_buffer_release) rkey_buffer_release = nullptr;
  decltype(&ucp_ep_rkey_unpack) ep_rkey_unpack = nullptr;
  decltype(&ucp_rkey_destroy) rkey_destroy = nullptr;
  decltype(&ucp_get_nbx) get = nullptr;
  decltype(&ucp_request_check_status) request_check_status = nullptr;
  decltype(&ucp_request_free) request_free = nullptr;
  const char* (*status_string)(ucs_status_t) = nullptr;

  // Opened once per process and name, and never closed: UCX leaves threads' and memory hooks behind
  // that a dlclose would pull the code from under. kUnsupported says what is missing.
  static Result<std::shared_ptr<const Library>> open(const std::string& name);
};

// `what` failed with `status`: a typed error with UCX's words and its status as the vendor fact.
Status ucx_status(const Library& library, ucs_status_t status, const std::string& what);

}  // namespace wb::ucx
