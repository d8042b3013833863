#include <array>

#include "control/store_pool.h"

namespace wb {
namespace {

using wire::Grpc;

// Refusals of credentials that etcd reports with a code that means something else.
constexpr std::array<std::string_view, 5> kCredentialWords = {
    "invalid auth token", "user name is empty", "authentication failed",
    "revision of auth store is old", "user name not found"};

bool about_credentials(std::string_view message) {
  for (const std::string_view words : kCredentialWords) {
    if (message.find(words) != std::string_view::npos) return true;
  }
  return false;
}

Code code_of_grpc(int64_t grpc) {
  switch (static_cast<Grpc>(grpc)) {
    case Grpc::kInvalidArgument:
    case Grpc::kOutOfRange:
      return Code::kInvalidArgument;
    case Grpc::kDeadlineExceeded:
      return Code::kDeadline;
    case Grpc::kNotFound:
      return Code::kNotFound;
    case Grpc::kPermissionDenied:
      return Code::kPermission;
    case Grpc::kResourceExhausted:
      return Code::kNoMemory;
    case Grpc::kFailedPrecondition:
      return Code::kFailedPrecondition;
    case Grpc::kUnimplemented:
      return Code::kUnsupported;
    case Grpc::kUnauthenticated:
      return Code::kUnauthenticated;
    default:
      return Code::kUnavailable;
  }
}

Code code_of_http(int status) {
  switch (status) {
    case 400:
    case 413:
      return Code::kInvalidArgument;
    case 401:
      return Code::kUnauthenticated;
    case 403:
      return Code::kPermission;
    case 404:
      return Code::kNotFound;
    default:
      return status >= 500 ? Code::kUnavailable : Code::kBadData;
  }
}

std::string printable(std::string text) {
  constexpr size_t kMaxSentence = 300;
  if (text.size() > kMaxSentence) text.resize(kMaxSentence);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = ' ';
  }
  return text;
}

}  // namespace

Status store_error(int http_status, const wire::Json& error, const std::string& address) {
  // A stream has grpc_code and message; a plain answer has code, message and error.
  int64_t grpc = 0;
  std::string message;
  for (const char* field : {"code", "grpc_code"}) {
    const auto value = wire::get_int(error, field);
    if (value.ok() && *value != 0) grpc = *value;
  }
  for (const char* field : {"error", "message"}) {
    auto value = wire::get_text(error, field);
    if (value.ok() && !value->empty()) message = printable(std::move(*value));
  }
  Code code = grpc != 0 ? code_of_grpc(grpc) : code_of_http(http_status);
  if (about_credentials(message)) code = Code::kUnauthenticated;
  if (message.empty()) message = "HTTP status " + std::to_string(http_status);
  return Status(code, "the store at " + address + " answered: " + message)
      .with_peer(address)
      .with_vendor(http_status);
}

Status store_reason_error(const std::string& reason) {
  Code code = Code::kUnavailable;
  if (about_credentials(reason) || reason.find("Unauthenticated") != std::string::npos) {
    code = Code::kUnauthenticated;
  } else if (reason.find("PermissionDenied") != std::string::npos ||
             reason.find("permission denied") != std::string::npos) {
    code = Code::kPermission;
  }
  return Status(code, "the store ended the watch: " +
                          (reason.empty() ? "it gave no reason" : printable(reason)));
}

}  // namespace wb
