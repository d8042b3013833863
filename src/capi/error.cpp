#include "capi/error.h"

#include <chrono>

namespace wb::capi {
namespace {

struct LastError {
  std::string sentence;
  std::string peer;
  std::string tensor;
  wb_error view{sizeof(wb_error), WB_OK, 0, 0, 0, 0, "ok", "", ""};
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

// Needs no memory: what is left to say when there is none.
wb_code report_fixed(wb_code code, const char* sentence) noexcept {
  last_error().view = {sizeof(wb_error), code, 0, 0, 0, 0, sentence, "", ""};
  return code;
}

static_assert(WB_OK == static_cast<int>(Code::kOk));
static_assert(WB_INVALID_ARGUMENT == static_cast<int>(Code::kInvalidArgument));
static_assert(WB_BAD_DATA == static_cast<int>(Code::kBadData));
static_assert(WB_NOT_FOUND == static_cast<int>(Code::kNotFound));
static_assert(WB_DEADLINE == static_cast<int>(Code::kDeadline));
static_assert(WB_UNAVAILABLE == static_cast<int>(Code::kUnavailable));
static_assert(WB_UNAUTHENTICATED == static_cast<int>(Code::kUnauthenticated));
static_assert(WB_PERMISSION == static_cast<int>(Code::kPermission));
static_assert(WB_NO_MEMORY == static_cast<int>(Code::kNoMemory));
static_assert(WB_MISMATCH == static_cast<int>(Code::kMismatch));
static_assert(WB_NOT_COVERED == static_cast<int>(Code::kNotCovered));
static_assert(WB_UNPROVEN == static_cast<int>(Code::kUnproven));
static_assert(WB_TORN == static_cast<int>(Code::kTorn));
static_assert(WB_STARVED == static_cast<int>(Code::kStarved));
static_assert(WB_PEER_LOST == static_cast<int>(Code::kPeerLost));
static_assert(WB_GENERATION_CHANGED == static_cast<int>(Code::kGenerationChanged));
static_assert(WB_FAILED_PRECONDITION == static_cast<int>(Code::kFailedPrecondition));
static_assert(WB_UNSUPPORTED == static_cast<int>(Code::kUnsupported));
static_assert(WB_BUSY == static_cast<int>(Code::kBusy));
static_assert(WB_CANCELLED == static_cast<int>(Code::kCancelled));
static_assert(WB_IO == static_cast<int>(Code::kIo));
static_assert(WB_INTERNAL == static_cast<int>(Code::kInternal));

}  // namespace

wb_code report(const Status& status) noexcept {
  if (status.ok()) return WB_OK;
  try {
    LastError& last = last_error();
    last.sentence = status.message();
    last.peer = status.facts().peer;
    last.tensor = status.facts().tensor;
    last.view = {sizeof(wb_error),
                 static_cast<wb_code>(status.code()),
                 status.retryable() ? 1 : 0,
                 status.facts().sys_errno,
                 0,
                 status.facts().vendor,
                 last.sentence.c_str(),
                 last.peer.c_str(),
                 last.tensor.c_str()};
    return last.view.code;
  } catch (...) {
    return report_fixed(static_cast<wb_code>(status.code()),
                        "no memory was left for this error's sentence");
  }
}

wb_code report_no_memory() noexcept { return report_fixed(WB_NO_MEMORY, "out of memory"); }

wb_code report_exception(const char* what) noexcept {
  try {
    return report(Status(Code::kInternal, std::string("an exception reached the C ABI: ") + what));
  } catch (...) {
    return report_fixed(WB_INTERNAL, "an exception reached the C ABI");
  }
}

Result<Deadline> deadline_in(int64_t timeout_ms) {
  if (timeout_ms < 0 || timeout_ms > WB_MAX_TIMEOUT_MS) {
    return Status(Code::kInvalidArgument, "timeout of " + std::to_string(timeout_ms) +
                                              " ms: it must be in [0, " +
                                              std::to_string(WB_MAX_TIMEOUT_MS) + "]");
  }
  return Deadline::after(std::chrono::milliseconds(timeout_ms));
}

Status not_null(const void* pointer, const char* what) {
  if (pointer != nullptr) return Status();
  return Status(Code::kInvalidArgument, std::string(what) + " is NULL");
}

std::string text_of(const char* text) { return text == nullptr ? std::string() : text; }

}  // namespace wb::capi

extern "C" {

const wb_error* wb_last_error(void) WB_NOEXCEPT { return &wb::capi::last_error().view; }

const char* wb_code_name(wb_code code) WB_NOEXCEPT {
  // code_name() gives literals, so the data is terminated.
  return wb::code_name(static_cast<wb::Code>(code)).data();
}

const char* wb_version(void) WB_NOEXCEPT { return WB_LIBRARY_VERSION; }

}  // extern "C"
