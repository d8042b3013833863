#include "cli/host_port.h"

#include <charconv>

#include "control/http_client.h"

namespace wb::cli {

Result<HostPort> parse_host_port(const std::string& option, const std::string& text) {
  auto where = wb::parse_host_port(text);
  if (!where.ok()) return Status(where.status()).prefixed(option + ": ");
  HostPort out{where->host, 0};
  std::from_chars(where->port.data(), where->port.data() + where->port.size(), out.port);
  return out;
}

}  // namespace wb::cli
