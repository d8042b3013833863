// The texts of page/*, compiled in.
#pragma once

#include <string_view>

namespace wb {

// By file name without its ending: "shell", "style", "page".
std::string_view embedded_page(std::string_view file);

}  // namespace wb
