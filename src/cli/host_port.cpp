#include "cli/host_port.h"

#include <charconv>

namespace wb::cli {

Result<HostPort> parse_host_port(const std::string& option, const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return Status(Code::kInvalidArgument, option + " is HOST:PORT, not \"" + text + "\"");
  }
  HostPort out;
  out.host = text.substr(0, colon);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, out.port);
  if (error != std::errc() || stop != end) {
    return Status(Code::kInvalidArgument, "the port of " + option +
                                              " is a number from 0 to 65535, not \"" +
                                              text.substr(colon + 1) + "\"");
  }
  return out;
}

}  // namespace wb::cli
