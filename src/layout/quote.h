// Names that come from files, for error sentences: one line of bounded length.
#pragma once

#include <string>
#include <string_view>

namespace wb {

// In single quotes; control characters become '?', and what exceeds 200 bytes becomes "...".
inline std::string quote(std::string_view name) {
  constexpr size_t kLongest = 200;
  std::string out = "'";
  for (const char c : name.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  if (name.size() > kLongest) out += "...";
  out += '\'';
  return out;
}

}  // namespace wb
