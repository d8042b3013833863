#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/rank.h"

namespace wb::cli {

CLI::Validator sensible_seconds() {
  return CLI::Validator(
      [](std::string& text) {
        double seconds = 0;
        // Written so that NaN fails, too. A year: more would not fit a clock in nanoseconds.
        const bool fine = CLI::detail::lexical_cast(text, seconds) && seconds >= 1e-3 &&
                          seconds <= 366.0 * 24 * 3600;
        return fine ? std::string()
                    : "a number of seconds from 0.001 to a year is wanted, not " + text;
      },
      "SECONDS", "seconds");
}

void add_rank_options(CLI::App& command, const std::string& side, RankOptions* options) {
  command.add_option("--model", options->model, "Folder with the checkpoint and its config.json")
      ->required();
  const std::string example = side == "--trainer" ? "megatron:tp=2" : "vllm:tp=4";
  command.add_option(side, options->spec, "SPEC of this side's layout, e.g. " + example)
      ->required();
  command.add_option("--rank", options->rank, "This process's rank in the SPEC's world")
      ->required();
  command
      .add_option("--store", options->store,
                  "http(s)://HOST:PORT of the store, or embed:HOST:PORT to serve it from here")
      ->required()
      ->envname("WEIGHTBRIDGE_STORE");
  command
      .add_option("--token-file", options->token_file,
                  "File with the job's token (only its owner may read it)")
      ->required()
      ->envname("WEIGHTBRIDGE_TOKEN_FILE");
  command.add_option("--job", options->job, "Name of the job; other jobs do not see it")
      ->capture_default_str();
  command.add_option("--host", options->host, "Address of this machine that the peers can reach")
      ->capture_default_str();
  command.add_option("--transport", options->transport, "auto, local, ucx or verbs")
      ->capture_default_str();
  command
      .add_option("--verbs", options->verbs,
                  "For --transport verbs: KEY=VALUE,... as in docs/verbs.md, e.g. "
                  "devices=mlx5_0+mlx5_1,traffic_class=106")
      ->envname("WEIGHTBRIDGE_VERBS");
  command
      .add_option(
          "--memory", options->memory,
          "Where the weights lie: shared (memfd, can be mapped by readers on this host), "
          "host (private pages) or caller (private pages that this command allocates itself)")
      ->capture_default_str();
  command.add_option("--timeout", options->timeout, "Seconds until a single wait is given up")
      ->capture_default_str()
      ->check(sensible_seconds());
  command.add_flag("--huge-pages", options->huge_pages,
                   "Use huge pages; an error when there are none");
  command.add_option("--etcd-user", options->etcd_user, "User of an etcd with authentication");
  command.add_option("--etcd-password-file", options->etcd_password_file,
                     "File with that user's password");
  command.add_option("--ca-file", options->ca_file,
                     "Trusted certificates for a store behind https");
  command.add_flag("--json", options->json, "Print one JSON object a line");
  command.add_flag("--verbose", options->verbose, "Log each decision to stderr");
  command
      .add_flag("--not-dumpable", options->not_dumpable,
                "Forbid other processes to read this one's memory (PR_SET_DUMPABLE), as hardened "
                "services do")
      ->group("Advanced");
}

}  // namespace wb::cli
