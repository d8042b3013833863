#include "cli/doctor/sysfs.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "memory/topology.h"

namespace wb::cli::doctor {

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
  return line;
}

std::string read_bytes(const std::string& path, size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(most, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(most));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end(), name_before);
  return names;
}

std::string link_name(const std::string& path) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(path, error);
  return error ? std::string() : target.filename().string();
}

double leading_number(std::string_view text) {
  return std::strtod(std::string(text.substr(0, 40)).c_str(), nullptr);
}

uint64_t number_in(const std::string& path) {
  return std::strtoull(read_line(path).c_str(), nullptr, 0);
}

bool is_bus_id(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos || colon < 4 || name.size() != colon + 8) return false;
  const auto hex = [&](size_t at) {
    return std::isxdigit(static_cast<unsigned char>(name[at])) != 0;
  };
  for (size_t i = 0; i < name.size(); ++i) {
    const bool mark = i == colon || i == colon + 3 || i == colon + 6;
    if (mark ? name[i] != (i == colon + 6 ? '.' : ':') : !hex(i)) return false;
  }
  return true;
}

}  // namespace wb::cli::doctor
