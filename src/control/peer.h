// The peer endpoint: how workers ask each other for manifests, connection blobs and health, over
// HTTP with the job token as bearer. Topics are registered by session: "manifest",
// "exchange/local", "exchange/ucx".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"

namespace wb {

// Answers one request; called on the server's thread, so it returns quickly. An error becomes a
// typed error at the caller (code, sentence and facts travel).
using PeerHandler = std::function<Result<std::string>(std::string_view payload)>;

struct PeerServerOptions {
  std::string host = "127.0.0.1";  // address to listen on and to publish
  uint16_t port = 0;
  std::string token;  // required: an empty token is refused
  std::map<std::string, PeerHandler, std::less<>> topics;
  uint64_t max_payload = 64u << 20;
};

class PeerServer {
 public:
  static Result<std::unique_ptr<PeerServer>> listen(PeerServerOptions options);
  virtual ~PeerServer() = default;
  virtual std::string address() const = 0;  // "127.0.0.1:41002"
  // No handler runs after it returns ok.
  virtual Status close(Deadline deadline) = 0;
};

// POSTs `payload` to `topic` at `address`; one connection per call. kUnauthenticated, kUnavailable,
// kDeadline, kBadData (a malformed or oversized answer), or the handler's own error.
Result<std::string> peer_call(std::string_view address, std::string_view token,
                              std::string_view topic, std::string_view payload, Deadline deadline);

// The job token: from a file (first line, trailing white space cut; kPermission when others may
// read the file) ...
Result<std::string> read_token_file(const std::string& path);
// ... and compared in constant time.
bool token_equal(std::string_view a, std::string_view b);

}  // namespace wb
