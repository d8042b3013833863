// The texts of rules/*.rules, compiled in.
#pragma once

#include <string_view>

namespace wb {

// By file name without its ending ("megatron"). Empty for a file that does not exist.
std::string_view embedded_rules(std::string_view file);

}  // namespace wb
