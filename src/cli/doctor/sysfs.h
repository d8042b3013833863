// Small reads of /sys and /proc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace wb::cli::doctor {

// The first line without white space at its end; empty when the file cannot be read.
std::string read_line(const std::string& path);
std::string read_bytes(const std::string& path, size_t most);
// Names in a folder, mlx5_2 before mlx5_10; empty when there is none.
std::vector<std::string> names_in(const std::string& folder);
// The file name that a symbolic link leads to; empty when it is none.
std::string link_name(const std::string& path);
// The number that the text starts with ("100 Gb/sec" is 100); 0 for anything else.
double leading_number(std::string_view text);
uint64_t number_in(const std::string& path);
// "0000:1b:00.0"
bool is_bus_id(std::string_view name);

}  // namespace wb::cli::doctor
