#include "cli/report_files.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/output_file.h"

namespace wb::cli {
namespace {

constexpr const char* kStdout = "-";

}  // namespace

void add_report_options(CLI::App& command, ReportFiles* files) {
  command
      .add_option("--json", files->json,
                  "Write JSON to this file; without a file, to stdout instead of the text")
      ->expected(0, 1)
      ->default_str(kStdout);
  command.add_option("--html", files->html, "Write a page with pictures to this file");
}

void settle_report_options(const CLI::App& command, ReportFiles* files) {
  // CLI11 gives an option without a value none, or an empty one.
  if (command.count("--json") != 0 && files->json.empty()) files->json = kStdout;
}

Status write_report(const ReportFiles& files, const std::function<std::string()>& text,
                    const std::function<nlohmann::json()>& json) {
  if (files.json != kStdout) std::cout << text() << std::flush;
  if (files.json.empty()) return {};
  const std::string dumped =
      json().dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (files.json != kStdout) return write_output(files.json, dumped);
  std::cout << dumped << std::flush;
  return {};
}

}  // namespace wb::cli
