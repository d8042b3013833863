// Where a command puts its report: text on stdout, JSON on stdout or in a file, a page in a file.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/status.h"

namespace CLI {
class App;
}

namespace wb::cli {

struct ReportFiles {
  std::string json;  // empty: none; "-": stdout, instead of the text
  std::string html;  // empty: none
};

// --json and --html.
void add_report_options(CLI::App& command, ReportFiles* files);
// To be called in the command's callback: --json without a file means stdout.
void settle_report_options(const CLI::App& command, ReportFiles* files);

// Text and JSON are asked for only when they go somewhere.
Status write_report(const ReportFiles& files, const std::function<std::string()>& text,
                    const std::function<nlohmann::json()>& json);

}  // namespace wb::cli
