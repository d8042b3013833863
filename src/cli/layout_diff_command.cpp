#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "layout/layout_diff.h"
#include "layout/layout_file.h"

namespace wb::cli {
namespace {

struct DiffOptions {
  std::string a;
  std::string b;
  bool json = false;
};

// Whether they are equal.
Result<bool> compare(const DiffOptions& options) {
  WB_ASSIGN_OR_RETURN(const LayoutFile a, load_layout(options.a));
  WB_ASSIGN_OR_RETURN(const LayoutFile b, load_layout(options.b));
  if (a.table.digest() != b.table.digest()) {
    return Status(Code::kMismatch, options.a + " and " + options.b +
                                       " are layouts of different checkpoints: their tensors are "
                                       "not the same");
  }
  WB_ASSIGN_OR_RETURN(const auto differences, diff_layouts(a.table, a.layout, b.layout));
  if (options.json) {
    std::cout << differences_json(a.table, differences) << std::endl;
    return differences.empty();
  }
  std::string text;
  for (const LayoutDifference& difference : differences) text += difference.text + "\n";
  text += differences.empty() ? "equal: the same elements at the same bytes\n"
                              : std::to_string(differences.size()) + " differences\n";
  std::cout << printable_lines(text) << std::flush;
  return differences.empty();
}

}  // namespace

void add_layout_diff(CLI::App& app, int* exit) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand(
      "layout-diff",
      "Show where two layouts of one worker differ, in coordinates of the checkpoint");
  command->footer(
      "Example:\n"
      "  weightbridge layout --model DIR --side vllm:tp=2 --rank 0 --out rules.json\n"
      "  weightbridge layout-diff probed.json rules.json\n"
      "Files are written by layout --out and by programs that probe. Exit code 0: equal; 9: not.");
  command->add_option("a", options->a, "A layout file")->required();
  command->add_option("b", options->b, "Another one")->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, exit] {
    const Result<bool> equal = compare(*options);
    if (!equal.ok()) {
      *exit = fail("layout-diff", equal.status());
    } else {
      *exit = *equal ? kExitOk : kExitMismatch;
    }
  });
}

}  // namespace wb::cli
