// Text from outside for people's eyes: what would move the cursor, hide or reorder other text is
// replaced.
#pragma once

#include <string>
#include <string_view>

#include "layout/utf8.h"

namespace wb {

// Control characters (C0 but for kept newlines, DEL, C1), bidirectional controls, line separators,
// the byte order mark, and each byte that is not UTF-8 become '?'.
inline std::string visible(std::string_view text, bool keep_newlines = false) {
  const auto hides = [&](std::string_view c) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(c[i]); };
    if (c.size() == 1)
      return (byte(0) < 0x20 && !(keep_newlines && c[0] == '\n')) || byte(0) == 0x7F;
    if (c.size() == 2) return (byte(0) == 0xC2 && byte(1) < 0xA0) || c == "\u061C";
    if (c.size() != 3) return false;
    return (byte(0) == 0xE2 && byte(1) == 0x80 &&
            ((byte(2) >= 0x8B && byte(2) <= 0x8F) || (byte(2) >= 0xA8 && byte(2) <= 0xAE))) ||
           (byte(0) == 0xE2 && byte(1) == 0x81 && byte(2) >= 0xA0 && byte(2) <= 0xAF) ||
           c == "\uFEFF";
  };
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const std::string_view c = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || hides(c)) {
      out += '?';
    } else {
      out += c;
    }
    text.remove_prefix(c.size());
  }
  return out;
}

// visible() in single quotes; what exceeds 200 bytes becomes "...".
inline std::string quote(std::string_view name) {
  size_t shown = 0;
  constexpr size_t kLongest = 200;
  while (shown < name.size()) {
    const size_t length = utf8_length(name.substr(shown));
    if (shown + (length == 0 ? 1 : length) > kLongest) break;
    shown += length == 0 ? 1 : length;
  }
  return "'" + visible(name.substr(0, shown)) + (shown < name.size() ? "...'" : "'");
}

}  // namespace wb
