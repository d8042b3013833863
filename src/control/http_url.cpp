#include <algorithm>
#include <charconv>

#include "control/http_client.h"

namespace wb {
namespace {

Status bad(std::string_view text, std::string_view why) {
  return Status(Code::kInvalidArgument,
                "address \"" + std::string(text) + "\": " + std::string(why));
}

bool host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}
bool ip6_char(char c) {
  return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') || c == '.' ||
         c == ':';
}

}  // namespace

std::string HttpEndpoint::address() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + port;
}

Result<HttpEndpoint> parse_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad(text, "HOST:PORT is wanted");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.size() > 253 ||
      !std::all_of(host.begin(), host.end(), bracketed ? ip6_char : host_char)) {
    return bad(text, "not a host name or address (IPv6 needs brackets)");
  }
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size()) return bad(text, "not a port");
  return HttpEndpoint{false, std::string(host), std::string(port)};
}

Result<HttpEndpoint> parse_http_url(std::string_view url) {
  constexpr std::string_view kPlain = "http://";
  constexpr std::string_view kTls = "https://";
  const bool tls = url.substr(0, kTls.size()) == kTls;
  if (!tls && url.substr(0, kPlain.size()) != kPlain) {
    return bad(url, "http://HOST:PORT or https://HOST:PORT is wanted");
  }
  std::string_view rest = url.substr(tls ? kTls.size() : kPlain.size());
  if (!rest.empty() && rest.back() == '/') rest.remove_suffix(1);
  WB_ASSIGN_OR_RETURN(HttpEndpoint endpoint, parse_host_port(rest));
  endpoint.tls = tls;
  return endpoint;
}

Status check_token_words(std::string_view token) {
  const bool fine =
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 127; });
  if (fine && token.size() <= 4096) return Status();
  return Status(Code::kInvalidArgument,
                "a token is up to 4096 printable ASCII characters without spaces");
}

}  // namespace wb
