// An HTTP/1.1 server on one thread of asynchronous operations, shared by the embedded store and the
// peer endpoint. A slow, stuck or half-open client holds a connection and nothing else. Boost stays
// behind this header.
//
// The bearer token is checked on the request's head, before a byte of its body is accepted.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"

namespace wb {

// The body of an endless answer, pulled by the server whenever the client can take more: what a
// slow reader has not taken is never queued.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  // The next bytes; empty: nothing now, ask again when streams are woken. `*last` is set when
  // nothing follows.
  virtual std::string next(bool* last) = 0;
};

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::unique_ptr<HttpStream> stream;  // instead of body
  bool wake_streams = false;           // all open streams are asked for their next bytes
};

struct HttpServerOptions {
  std::string host;
  uint16_t port = 0;
  std::string token;  // bearer; empty: anyone
  uint64_t max_body = 0;
  // A request must be whole within this time, and an answer taken; also how long a connection may
  // be silent between two requests.
  std::chrono::milliseconds patience{30'000};
  // A new connection must have sent the whole head of an authorised request within this time: a
  // stranger holds a descriptor no longer.
  std::chrono::milliseconds introduction{5'000};
  // More are closed at once. All servers of the process together hold at most half of the
  // descriptors that it may open (RLIMIT_NOFILE at listen()), so that the program around them
  // keeps the other half.
  size_t max_connections = 4096;
  // Handlers run on a second thread, one at a time, so that they may take their time without
  // holding up connections. Else on the server's own thread, between I/O.
  bool handler_thread = false;
  // The body of an answer that the server itself gives (401, 404, 413, ...).
  std::function<std::string(int status, std::string_view sentence)> error_body;
};

using HttpHandler = std::function<HttpAnswer(std::string_view target, std::string body)>;

class HttpServer {
 public:
  // kBusy when the port is taken.
  static Result<std::unique_ptr<HttpServer>> listen(HttpServerOptions options, HttpHandler handler);
  // Waits for a handler that is running.
  virtual ~HttpServer() = default;
  virtual std::string address() const = 0;  // "host:port"
  // Runs `task` on the server's thread every `period`; true wakes all streams.
  virtual void every(std::chrono::milliseconds period, std::function<bool()> task) = 0;
  // Stops accepting, ends connections, waits for a running handler: no handler runs after ok.
  virtual Status close(Deadline deadline) = 0;
};

}  // namespace wb
