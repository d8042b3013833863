// The `weightbridge` command: see docs/command-line.md.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/commands.h"
#include "cli/exit_code.h"

namespace {

constexpr char kFooter[] =
    "Examples:\n"
    "  weightbridge demo --model DIR --trainer megatron:tp=2 --rollout vllm:tp=4\n"
    "  weightbridge plan --model DIR --trainer fsdp:shards=4 --rollout vllm:tp=2\n"
    "  weightbridge layout --model DIR --side vllm:tp=4 --rank 0\n"
    "SPEC is framework:key=value,... with megatron, fsdp, vllm or replicated: docs/spec.md.\n"
    "Exit codes: 0 ok; 1 wrong bytes; 2 usage; 3 bad data; 4 deadline; 5 unavailable; 6 token;\n"
    "7 permission; 8 memory; 9 mismatch; 10 not found; 11 busy; 12 unsupported; 13 order of "
    "steps;\n"
    "14 I/O; 15 a rank of the demo failed; 70 internal; 130 interrupted.";

int run(int argc, char** argv) {
  int exit = wb::cli::kExitOk;
  CLI::App app("Moves model weights from trainers to rollout workers by one-sided reads.",
               "weightbridge");
  app.set_version_flag("--version", "weightbridge " WB_VERSION);
  app.require_subcommand(1);
  app.footer(kFooter);
  wb::cli::add_demo(app, &exit);
  wb::cli::add_layout(app, &exit);
  wb::cli::add_layout_diff(app, &exit);
  wb::cli::add_plan(app, &exit);
  wb::cli::add_store(app, &exit);
  wb::cli::add_publish(app, &exit);
  wb::cli::add_pull(app, &exit);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version: CLI11 prints them and they are no error.
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "weightbridge: %s (hint: see weightbridge --help)\n",
                 wb::cli::printable(error.what()).c_str());
    return wb::cli::kExitUsage;
  }
  return exit;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return wb::cli::fail("error", wb::Status(wb::Code::kNoMemory, "no memory is left"));
  } catch (const std::exception& error) {
    return wb::cli::fail("error", wb::Status(wb::Code::kInternal, error.what()));
  }
}
