// Lists in a text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace wb {

// The words between commas; as many as there are commas and one more, so empty ones, too.
inline std::vector<std::string> split_commas(std::string_view text) {
  std::vector<std::string> out;
  while (true) {
    const size_t comma = text.find(',');
    out.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace wb
