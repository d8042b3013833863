// "HOST:PORT" words of the command line.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace wb::cli {

struct HostPort {
  std::string host;
  uint16_t port = 0;
};
// IPv6 in brackets. `option` is named in errors.
Result<HostPort> parse_host_port(const std::string& option, const std::string& text);

}  // namespace wb::cli
