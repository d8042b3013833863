#include "cli/reporter.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace wb::cli {

void Reporter::say(const nlohmann::json& event, const std::string& text) const {
  std::string line = text;
  if (json_) {
    line = event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  if (line.empty()) return;
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

std::string human_bytes(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  if (bytes < 1e13) return fmt::format("{:.2f} GB", bytes / 1e9);
  return fmt::format("{:.2f} TB", bytes / 1e12);
}

std::string human_time(double nanoseconds) {
  if (nanoseconds < 1e3) return fmt::format("{:.0f} ns", nanoseconds);
  if (nanoseconds < 1e6) return fmt::format("{:.1f} us", nanoseconds / 1e3);
  if (nanoseconds < 1e9) return fmt::format("{:.1f} ms", nanoseconds / 1e6);
  return fmt::format("{:.2f} s", nanoseconds / 1e9);
}

}  // namespace wb::cli
