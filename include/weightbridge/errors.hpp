// Status, Result and Error: what every call returns. Part of weightbridge.hpp.
#ifndef WEIGHTBRIDGE_ERRORS_HPP
#define WEIGHTBRIDGE_ERRORS_HPP

#include <weightbridge/weightbridge.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace weightbridge {

enum class Code : wb_code {
  kOk = WB_OK,
  kInvalidArgument = WB_INVALID_ARGUMENT,
  kBadData = WB_BAD_DATA,
  kNotFound = WB_NOT_FOUND,
  kDeadline = WB_DEADLINE,
  kUnavailable = WB_UNAVAILABLE,
  kUnauthenticated = WB_UNAUTHENTICATED,
  kPermission = WB_PERMISSION,
  kNoMemory = WB_NO_MEMORY,
  kMismatch = WB_MISMATCH,
  kNotCovered = WB_NOT_COVERED,
  kUnproven = WB_UNPROVEN,
  kTorn = WB_TORN,
  kStarved = WB_STARVED,
  kPeerLost = WB_PEER_LOST,
  kGenerationChanged = WB_GENERATION_CHANGED,
  kFailedPrecondition = WB_FAILED_PRECONDITION,
  kUnsupported = WB_UNSUPPORTED,
  kBusy = WB_BUSY,
  kCancelled = WB_CANCELLED,
  kIo = WB_IO,
  kInternal = WB_INTERNAL,
};

// "no_memory"
inline std::string_view name(Code code) { return wb_code_name(static_cast<wb_code>(code)); }

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  // An error of this header's own: nothing was asked of the library.
  static Status make(Code code, std::string message) {
    Status status;
    status.code_ = code;
    status.message_ = std::move(message);
    return status;
  }
  // The calling thread's last error, if `code` is one.
  static Status of(wb_code code) {
    Status status;
    if (code == WB_OK) return status;
    const wb_error& error = *wb_last_error();
    status.code_ = static_cast<Code>(code);
    status.retryable_ = error.retryable != 0;
    status.message_ = error.sentence;
    status.peer_ = error.peer;
    status.tensor_ = error.tensor;
    status.sys_errno_ = error.sys_errno;
    status.vendor_ = error.vendor;
    return status;
  }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  bool retryable() const { return retryable_; }
  const std::string& message() const { return message_; }  // one sentence
  const std::string& peer() const { return peer_; }
  const std::string& tensor() const { return tensor_; }
  int sys_errno() const { return sys_errno_; }
  std::int64_t vendor() const { return vendor_; }
  std::string to_string() const {
    return ok() ? std::string("ok") : std::string(name(code_)) + ": " + message_;
  }

  void or_throw() const;

 private:
  Code code_ = Code::kOk;
  bool retryable_ = false;
  int sys_errno_ = 0;
  std::int64_t vendor_ = 0;
  std::string message_;
  std::string peer_;
  std::string tensor_;
};

class Error : public std::runtime_error {
 public:
  explicit Error(Status status)
      : std::runtime_error(status.to_string()), status_(std::move(status)) {}
  const Status& status() const { return status_; }
  Code code() const { return status_.code(); }

 private:
  Status status_;
};

inline void Status::or_throw() const {
  if (ok()) return;
#if defined(__cpp_exceptions)
  throw Error(*this);
#else
  std::fprintf(stderr, "weightbridge: %s\n", to_string().c_str());
  std::abort();
#endif
}

// A value, or the error that explains why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : *std::get_if<1>(&state_); }
  void or_throw() const {
    if (!ok()) std::get_if<1>(&state_)->or_throw();
  }

  T& value() & {
    or_throw();
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    or_throw();
    return *std::get_if<0>(&state_);
  }
  T value() && {
    or_throw();
    return std::move(*std::get_if<0>(&state_));
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace weightbridge

#endif
