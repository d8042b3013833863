#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/reporter.h"
#include "cli/token.h"
#include "control/peer.h"
#include "control/store_server.h"

namespace wb::cli {
namespace {

struct StoreCommandOptions {
  std::string listen = "127.0.0.1:0";
  std::string token_file;
  bool json = false;
};

Status serve(const StoreCommandOptions& options) {
  WB_ASSIGN_OR_RETURN(const bool created, make_token_file(options.token_file));
  WB_ASSIGN_OR_RETURN(std::string token, read_token_file(options.token_file));
  WB_ASSIGN_OR_RETURN(const auto server, StoreServer::listen(options.listen, std::move(token)));
  Reporter(options.json)
      .say({{"event", "listening"}, {"endpoint", server->endpoint()}},
           "store at " + server->endpoint() +
               (created ? ", with a new token in " + options.token_file : "") +
               "; end it with Ctrl-C");
  wait_for_interrupt();
  return server->close(Deadline::after(std::chrono::seconds(3)));
}

}  // namespace

void add_store(CLI::App& app, int* exit) {
  auto options = std::make_shared<StoreCommandOptions>();
  CLI::App* command = app.add_subcommand("store", "Serve a store until SIGINT or SIGTERM");
  command->footer(
      "Example:\n"
      "  weightbridge store --listen 0.0.0.0:7070 --token-file job.token\n"
      "The other processes of the job use --store http://HOST:7070 and a copy of the token file.");
  command->add_option("--listen", options->listen, "HOST:PORT; port 0 lets the kernel choose")
      ->capture_default_str();
  command
      ->add_option("--token-file", options->token_file,
                   "File with the job's token; made, with a random token, if it does not exist")
      ->required()
      ->envname("WEIGHTBRIDGE_TOKEN_FILE");
  command->add_flag("--json", options->json, "Print one JSON object a line");
  command->callback([options, exit] {
    catch_interrupts();
    const Status status = serve(*options);
    *exit = status.ok() ? kExitOk : fail("store", status);
  });
}

}  // namespace wb::cli
