// A synchronous HTTP/1.1 client connection over asynchronous operations, so that every step
// (resolve, connect, TLS handshake, write, read) ends by the caller's deadline. Shared by the store
// client and peer calls; Boost stays behind this header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"

namespace wb {

struct HttpEndpoint {
  bool tls = false;
  std::string host;  // without the brackets of an IPv6 address
  std::string port;
  std::string address() const;  // "host:port", "[v6]:port"
};

// "HOST:PORT" or "[V6]:PORT"; kInvalidArgument otherwise.
Result<HttpEndpoint> parse_host_port(std::string_view text);
// "http://HOST:PORT" or "https://HOST:PORT", a closing slash allowed, no path.
Result<HttpEndpoint> parse_http_url(std::string_view url);
// kInvalidArgument for a token that cannot be the value of a header (empty is fine).
Status check_token_words(std::string_view token);

// The certificates that https trusts; one for all connections of a client.
class TlsTrust {
 public:
  // Empty: the system's certificates.
  static Result<std::shared_ptr<TlsTrust>> load(const std::string& ca_file);
  virtual ~TlsTrust() = default;
};

struct HttpCall {
  std::string_view target;         // "/v3/kv/put"
  std::string_view authorization;  // whole value of the header; empty: none
  std::string_view body;
  std::string_view content_type = "application/json";
  uint64_t max_reply = 16u << 20;  // bytes of the body
};

struct HttpReply {
  int status = 0;
  std::string body;
};

// One connection, used by one thread at a time.
class HttpConnection {
 public:
  // `trust` may be null for an endpoint without TLS. kUnavailable, kDeadline, kCancelled (see
  // cancel.h; of all calls), kUnauthenticated (certificate refused).
  static Result<std::unique_ptr<HttpConnection>> open(const HttpEndpoint& endpoint,
                                                      std::shared_ptr<TlsTrust> trust,
                                                      Deadline deadline);
  virtual ~HttpConnection() = default;

  // POST and the whole answer. After an error the connection is closed.
  virtual Result<HttpReply> call(const HttpCall& call, Deadline deadline) = 0;

  // POST and the head of the answer; the body comes through read_stream().
  virtual Result<int> open_stream(const HttpCall& call, Deadline deadline) = 0;
  // More of the body; an empty string at its end. kDeadline: nothing came, the stream goes on.
  virtual Result<std::string> read_stream(Deadline deadline) = 0;

  // Whether another call may be made: the last answer ended, the server keeps the connection, and
  // neither its end nor a stray byte has arrived since.
  virtual bool reusable() = 0;
  // Whether any byte of the answer to the last call arrived.
  virtual bool reply_begun() const = 0;
};

}  // namespace wb
