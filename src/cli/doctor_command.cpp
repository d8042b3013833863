#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/doctor/gather.h"
#include "cli/doctor/peer.h"
#include "cli/doctor/report.h"
#include "cli/exit_code.h"
#include "cli/host_port.h"
#include "cli/interrupt.h"
#include "cli/reporter.h"
#include "cli/token.h"
#include "control/peer.h"

namespace wb::cli {
namespace {

struct DoctorOptions {
  std::vector<std::string> needs;
  bool json = false;
  bool serve = false;
  std::string listen = "127.0.0.1:0";
  uint64_t mebibytes = 64;
  std::string peer;
  std::string transport = "all";
  std::string verbs;
  std::string token_file;
  double timeout = 60;
};

Deadline deadline_of(const DoctorOptions& options) {
  return Deadline::after(std::chrono::duration_cast<Deadline::Clock::duration>(
      std::chrono::duration<double>(options.timeout)));
}

doctor::Needs needs_of(const DoctorOptions& options) {
  const auto asked = [&](const char* name) {
    return std::find(options.needs.begin(), options.needs.end(), name) != options.needs.end();
  };
  return {asked("local"), asked("ucx"), asked("verbs"), asked("gpu")};
}

Status check_words(const DoctorOptions& options) {
  if (options.serve && !options.peer.empty()) {
    return Status(Code::kInvalidArgument, "--serve is one side and --peer the other: name one");
  }
  if ((options.serve || !options.peer.empty()) && options.token_file.empty()) {
    return Status(Code::kInvalidArgument, "--serve and --peer need --token-file");
  }
  if (!options.peer.empty()) WB_RETURN_IF_ERROR(parse_host_port("--peer", options.peer).status());
  return {};
}

Status serve(const DoctorOptions& options) {
  catch_interrupts();
  doctor::ServeOptions serve_options;
  WB_ASSIGN_OR_RETURN(const HostPort listen, parse_host_port("--listen", options.listen));
  serve_options.host = listen.host;
  serve_options.port = listen.port;
  serve_options.bytes = options.mebibytes << 20;
  WB_ASSIGN_OR_RETURN(serve_options.verbs, parse_verbs_options(options.verbs));
  WB_ASSIGN_OR_RETURN(const bool created, make_token_file(options.token_file));
  WB_ASSIGN_OR_RETURN(serve_options.token, read_token_file(options.token_file));
  WB_ASSIGN_OR_RETURN(const auto service, doctor::PeerService::start(serve_options));
  const Reporter reporter(options.json);
  nlohmann::json event = {{"event", "listening"}, {"endpoint", service->address()}};
  std::string text;
  for (const doctor::Finding& finding : service->findings()) {
    event["findings"].push_back({{"subject", finding.subject},
                                 {"verdict", doctor::verdict_name(finding.verdict)},
                                 {"text", finding.text}});
    text += finding.subject + ": " + printable(finding.text) + "\n";
  }
  reporter.say(event, text + "a doctor waits at " + service->address() +
                          (created ? ", with a new token in " + options.token_file : "") +
                          "; end it with Ctrl-C");
  wait_for_interrupt();
  return service->close(Deadline::after(std::chrono::seconds(3)));
}

Result<doctor::PeerResult> read_peer(const DoctorOptions& options) {
  doctor::PeerOptions peer;
  peer.peer = options.peer;
  for (const TransportKind kind :
       {TransportKind::kLocal, TransportKind::kUcx, TransportKind::kVerbs}) {
    if (options.transport == transport_name(kind)) peer.transport = kind;
  }
  WB_ASSIGN_OR_RETURN(peer.token, read_token_file(options.token_file));
  WB_ASSIGN_OR_RETURN(peer.verbs, parse_verbs_options(options.verbs));
  peer.deadline = deadline_of(options);
  return doctor::try_peer(peer);
}

// The exit code: wrong bytes first, then why the peer could not be read, then any other problem.
int examine(const DoctorOptions& options) {
  const doctor::MachineFacts facts = doctor::gather();
  doctor::Findings findings = doctor::check_all(facts, needs_of(options));
  Status peer_status;
  int exit = kExitOk;
  if (!options.peer.empty()) {
    auto peer = read_peer(options);
    peer_status = peer.status();
    if (peer.ok()) {
      std::move(peer->findings.begin(), peer->findings.end(), std::back_inserter(findings));
      exit = peer->wrong_bytes ? static_cast<int>(kExitWrong) : exit_code(peer->status.code());
    }
  }
  Reporter(options.json).say(doctor::report_json(facts, findings), doctor::report_text(findings));
  if (!peer_status.ok()) return fail("doctor", peer_status);
  if (exit != kExitOk) return exit;
  return doctor::worst(findings) == doctor::Verdict::kProblem ? kExitProblem : kExitOk;
}

int run_doctor(const DoctorOptions& options) {
  const Status words = check_words(options);
  if (!words.ok()) return fail("doctor", words);
  if (!options.serve) return examine(options);
  const Status status = serve(options);
  return status.ok() ? static_cast<int>(kExitOk) : fail("doctor", status);
}

}  // namespace

void add_doctor(CLI::App& app, int* exit) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Tell what this machine can do, and what stops it, with the cure");
  command->footer(
      "Examples:\n"
      "  weightbridge doctor\n"
      "  weightbridge doctor --need verbs --json\n"
      "A READ between two machines, with every byte checked:\n"
      "  weightbridge doctor --serve --listen 10.0.0.2:7072 --token-file doctor.token\n"
      "  weightbridge doctor --peer 10.0.0.2:7072 --token-file doctor.token\n"
      "Exit codes: 0 no problem, 16 a problem was found; with --peer also 1 (wrong bytes) and the "
      "reason why the peer cannot be read.");
  command
      ->add_option("--need", options->needs,
                   "local, ucx, verbs or gpu: its absence is a problem, not a note; repeatable")
      ->check(CLI::IsMember({"local", "ucx", "verbs", "gpu"}))
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--json", options->json, "Print one JSON object with facts and findings");
  command->add_flag("--serve", options->serve, "Offer test memory to a doctor on another machine");
  command->add_option("--peer", options->peer, "HOST:PORT of a doctor that serves");
  command
      ->add_option("--listen", options->listen,
                   "--serve: HOST:PORT that the other machine can reach; port 0 lets the kernel "
                   "choose")
      ->capture_default_str()
      ->needs("--serve");
  command->add_option("--mib", options->mebibytes, "--serve: size of the test memory in MiB")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536))
      ->needs("--serve");
  command
      ->add_option("--transport", options->transport,
                   "--peer: all, or the one that must work: local, ucx or verbs")
      ->capture_default_str()
      ->check(CLI::IsMember({"all", "local", "ucx", "verbs"}))
      ->needs("--peer");
  command
      ->add_option("--verbs", options->verbs,
                   "--serve, --peer: how the verbs transport uses its devices, KEY=VALUE,... as in "
                   "docs/verbs.md, e.g. devices=mlx5_0")
      ->envname("WEIGHTBRIDGE_VERBS");
  command
      ->add_option("--token-file", options->token_file,
                   "File with a token that both sides have; --serve makes it if it does not exist")
      ->envname("WEIGHTBRIDGE_TOKEN_FILE");
  command->add_option("--timeout", options->timeout, "--peer: seconds until it is given up")
      ->capture_default_str()
      ->check(sensible_seconds())
      ->needs("--peer");
  command->callback([options, exit] { *exit = run_doctor(*options); });
}

}  // namespace wb::cli
