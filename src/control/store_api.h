// The HTTP/JSON API over the embedded store's state: requests to calls, results to etcd's words.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "control/http_server.h"
#include "control/store_state.h"

namespace wb {

// The body of an error, as etcd's gateway writes it.
std::string store_error_body(int http_status, std::string_view sentence);

// Used on the server's thread only. Streams that it hands out refer to it.
class StoreApi {
 public:
  explicit StoreApi(const StoreLimits& limits) : state_(limits) {}

  HttpAnswer handle(std::string_view target, const std::string& body);
  // Whether events have happened since the last call: streams should be woken.
  bool take_changed();
  void expire();

 private:
  StoreState state_;
  int64_t seen_revision_ = 1;
};

}  // namespace wb
