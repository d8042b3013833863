// A report as one HTML file that needs nothing else: no network, no other file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace wb::cli {

// The page (src/cli/page/) with its data inside. `data` is what page.js draws; names in it may be
// anything: no text in it can end the element that it is in, and the page shows names as text.
std::string make_page(const nlohmann::json& data);

}  // namespace wb::cli
