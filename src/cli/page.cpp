#include "cli/page.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/page_embedded.h"

namespace wb::cli {
namespace {

// JSON whose text can stand in a script element: without '<' nothing can close it or open a
// comment. ASCII only: whatever the reader takes for the encoding.
std::string script_safe(const nlohmann::json& data) {
  const std::string text =
      data.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string make_page(const nlohmann::json& data) {
  std::string page;
  // In the order of the shell, and never looked for in what was put in.
  std::string_view rest = embedded_page("shell");
  const auto put = [&](std::string_view place, std::string_view text) {
    const size_t at = rest.find(place);
    page += rest.substr(0, at);
    page += text;
    rest.remove_prefix(at + place.size());
  };
  put("{{style}}", embedded_page("style"));
  put("{{data}}", script_safe(data));
  put("{{script}}", embedded_page("page"));
  page += rest;
  return page;
}

}  // namespace wb::cli
