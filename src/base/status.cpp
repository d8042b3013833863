#include "base/status.h"

#include <array>
#include <cerrno>
#include <system_error>

namespace wb {
namespace {

struct CodeRow {
  std::string_view name;
  bool retryable;
};

constexpr std::array<CodeRow, 22> kCodes = {{
    {"ok", false},
    {"invalid_argument", false},
    {"bad_data", false},
    {"not_found", false},
    {"deadline", true},
    {"unavailable", true},
    {"unauthenticated", false},
    {"permission", false},
    {"no_memory", true},
    {"mismatch", false},
    {"not_covered", false},
    {"unproven", false},
    {"torn", true},
    {"starved", true},
    {"peer_lost", true},
    {"generation_changed", false},
    {"failed_precondition", false},
    {"unsupported", false},
    {"busy", true},
    {"cancelled", false},
    {"io", false},
    {"internal", false},
}};
static_assert(kCodes.size() == static_cast<size_t>(Code::kInternal) + 1);

const CodeRow& row(Code code) {
  const auto index = static_cast<size_t>(code);
  return kCodes[index < kCodes.size() ? index : kCodes.size() - 1];
}

Code code_of_errno(int error) {
  switch (error) {
    case EACCES:
    case EPERM:
      return Code::kPermission;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
      return Code::kNoMemory;
    case ENOENT:
      return Code::kNotFound;
    case EADDRINUSE:
      return Code::kBusy;
    case ESRCH:
    case ECONNRESET:
    case EPIPE:
      return Code::kPeerLost;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return Code::kUnavailable;
    case ETIMEDOUT:
      return Code::kDeadline;
    default:
      return Code::kIo;
  }
}

}  // namespace

std::string_view code_name(Code code) { return row(code).name; }

bool code_retryable(Code code) { return row(code).retryable; }

std::string Status::to_string() const {
  std::string text(code_name(code_));
  if (ok()) return text;
  text += ": " + message_;
  std::string facts;
  const auto add = [&facts](const std::string& fact) {
    facts += (facts.empty() ? "" : ", ") + fact;
  };
  if (!facts_.peer.empty()) add("peer " + facts_.peer);
  if (!facts_.tensor.empty()) add("tensor " + facts_.tensor);
  if (facts_.sys_errno != 0) add("errno " + std::to_string(facts_.sys_errno));
  if (facts_.vendor != 0) add("vendor status " + std::to_string(facts_.vendor));
  return facts.empty() ? text : text + " (" + facts + ")";
}

std::string error_text(int error) { return std::generic_category().message(error); }

Status errno_status(int error, std::string_view what) {
  return Status(code_of_errno(error), std::string(what) + ": " + error_text(error))
      .with_errno(error);
}

}  // namespace wb
