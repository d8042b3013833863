// The words of the etcd v3 HTTP/JSON API that the store's client and server share: base64, and JSON
// as its gateway writes it (64-bit numbers as strings; false, zero and empty fields absent).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace wb::wire {

using Json = nlohmann::json;

// gRPC status codes, as etcd puts them into the field "code" of an error.
enum class Grpc : int {
  kOk = 0,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kUnavailable = 14,
  kUnauthenticated = 16,
};

std::string base64_encode(std::string_view bytes);
// Strict: padding, alphabet, no white space.
std::optional<std::string> base64_decode(std::string_view text);

// Copying and printing JSON recurse, so text from outside may not choose the depth; etcd's own
// messages need less than ten levels.
inline constexpr size_t kMaxDepth = 64;

// A JSON object with at most kMaxDepth levels, itself included, or kBadData. Every JSON text from
// outside (answers, watch lines, requests, records) is parsed here.
Result<Json> parse_object(std::string_view text);

// Fields of an object; an absent (or null) one is zero, false or empty. kBadData for a field of
// another type or range.
Result<int64_t> get_int(const Json& object, const char* field);
Result<bool> get_bool(const Json& object, const char* field);
Result<std::string> get_text(const Json& object, const char* field);
Result<std::string> get_bytes(const Json& object, const char* field);  // base64
// Null when absent.
Result<const Json*> get_object(const Json& object, const char* field);
Result<const Json*> get_array(const Json& object, const char* field);

// Put a field unless it is zero, false or empty.
void put_int(Json* object, const char* field, int64_t value);
void put_bool(Json* object, const char* field, bool value);
void put_bytes(Json* object, const char* field, std::string_view bytes);

// The end of the range of all keys with this prefix. An empty prefix means all keys: the range
// ["\0", "\0").
struct KeyRange {
  std::string begin;
  std::string end;
};
KeyRange prefix_range(std::string_view prefix);

}  // namespace wb::wire
