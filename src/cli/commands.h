// The subcommands of `weightbridge`. Each adds its options to the parser; after parsing, the chosen
// one has put its exit code into *exit.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace wb::cli {

struct RankOptions;

void add_demo(CLI::App& app, int* exit);
void add_layout(CLI::App& app, int* exit);
void add_layout_diff(CLI::App& app, int* exit);
void add_plan(CLI::App& app, int* exit);
void add_store(CLI::App& app, int* exit);
void add_publish(CLI::App& app, int* exit);
void add_pull(CLI::App& app, int* exit);

// Options that publish and pull share. `side` is "--trainer" or "--rollout".
void add_rank_options(CLI::App& command, const std::string& side, RankOptions* options);

}  // namespace wb::cli
