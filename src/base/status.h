// Status and Result: how every fallible function of the library reports.
//
// An error has a code from the short list below, one sentence for a person, and the facts a program
// needs to act on it. Nothing in the library throws across a room's border; std::bad_alloc is the
// exception and is turned into Code::kNoMemory at the C ABI.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace wb {

// Values are part of the C ABI (wb_code in weightbridge.h): append only.
enum class Code : int32_t {
  kOk = 0,
  kInvalidArgument = 1,  // the caller's words are wrong; calling again the same way cannot help
  kBadData = 2,          // bytes from outside (file, store, peer) are malformed; nothing was kept
  kNotFound = 3,         // a file, key, tensor or rank that does not exist
  kDeadline = 4,         // the deadline passed before the thing waited for happened
  kUnavailable = 5,      // the store or a peer cannot be reached now
  kUnauthenticated = 6,  // the other side refused our token, or we refused theirs
  kPermission = 7,       // the operating system forbids it
  kNoMemory = 8,         // memory, locked memory or descriptors are exhausted
  kMismatch = 9,         // the two sides do not describe the same thing (tables, layouts, world)
  kNotCovered = 10,      // no source holds a byte that the receiver needs
  kUnproven = 11,        // a plan failed its proof; nothing was executed
  kTorn = 12,            // the source changed during the read; the bytes are of no one version
  kStarved = 13,         // every attempt until the deadline was torn
  kPeerLost = 14,        // a source died or went away
  kGenerationChanged = 15,   // the set of trainer ranks was re-formed; rejoin to go on
  kFailedPrecondition = 16,  // calls in the wrong order
  kUnsupported = 17,         // a thing this build, machine or transport cannot do
  kBusy = 18,                // an address, port or rank that is already taken
  kCancelled = 19,           // closed by its owner while it waited
  kIo = 20,                  // a system call failed in a way no other code names
  kInternal = 21,            // a broken invariant of the library: please report it
};

// "kNoMemory" -> "no_memory": the spelling used in logs, JSON and exit messages.
std::string_view code_name(Code code);

// Whether the same call may succeed later with nothing changed by the caller.
bool code_retryable(Code code);

// What a program needs to act on an error. Empty or zero fields are unknown.
struct Facts {
  std::string peer;    // worker or address concerned
  std::string tensor;  // checkpoint tensor concerned
  int sys_errno = 0;   // errno of the failed system call
  int64_t vendor = 0;  // status of the lower library (UCX, verbs, HTTP)
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  bool retryable() const { return code_retryable(code_); }
  const std::string& message() const { return message_; }
  const Facts& facts() const { return facts_; }

  Status&& with_peer(std::string peer) && {
    facts_.peer = std::move(peer);
    return std::move(*this);
  }
  Status&& with_tensor(std::string tensor) && {
    facts_.tensor = std::move(tensor);
    return std::move(*this);
  }
  Status&& with_errno(int value) && {
    facts_.sys_errno = value;
    return std::move(*this);
  }
  Status&& with_vendor(int64_t value) && {
    facts_.vendor = value;
    return std::move(*this);
  }
  // Puts `what` in front of the sentence: "pull of version 7: " + message. Code and facts stay.
  Status&& prefixed(std::string_view what) && {
    message_.insert(0, what);
    return std::move(*this);
  }

  // One line: "no_memory: registering 3 GiB ... (peer trainer-2, errno 12 Cannot allocate memory)".
  std::string to_string() const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
  Facts facts_;
};

// What an errno means, in words; strerror() may share one buffer between threads.
std::string error_text(int error);

// "<what>: <error_text(errno)>", with the errno as a fact and the code that names it best.
Status errno_status(int error, std::string_view what);

// A value or the reason why there is none. Reading the value of a failed Result aborts.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}        // NOLINT: implicit
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {  // NOLINT: implicit
    if (std::get<1>(state_).ok()) {
      state_.template emplace<1>(Code::kInternal, "a Result without a value was made from ok");
    }
  }

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

#define WB_CONCAT_INNER(a, b) a##b
#define WB_CONCAT(a, b) WB_CONCAT_INNER(a, b)

#define WB_RETURN_IF_ERROR(expr)             \
  do {                                       \
    ::wb::Status wb_status_ = (expr);        \
    if (!wb_status_.ok()) return wb_status_; \
  } while (false)

// WB_ASSIGN_OR_RETURN(auto x, f()): declares x from f()'s value or returns f()'s status.
#define WB_ASSIGN_OR_RETURN(lhs, expr) WB_ASSIGN_IMPL(WB_CONCAT(wb_result_, __LINE__), lhs, expr)
#define WB_ASSIGN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                   \
  if (!tmp.ok()) return tmp.status();  \
  lhs = std::move(tmp).value()

}  // namespace wb
