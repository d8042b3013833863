#include "source_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

extern char** environ;

namespace wb::test {
namespace {

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::abort();
}

class PipeExchange : public Exchange {
 public:
  explicit PipeExchange(std::shared_ptr<SourceProcess> source) : source_(std::move(source)) {}
  Result<std::string> call(std::string_view payload, Deadline deadline) override {
    return source_->call(Op::kExchange, payload, deadline);
  }

 private:
  std::shared_ptr<SourceProcess> source_;
};

}  // namespace

std::shared_ptr<SourceProcess> SourceProcess::start(TransportKind kind, const std::string& tls) {
  const char* program = std::getenv("WB_TEST_SOURCE");
  if (program == nullptr) {
    std::fprintf(stderr, "WB_TEST_SOURCE must name the transport_source program\n");
    std::abort();
  }
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) give_up("socketpair");
  std::vector<std::string> words = {program, std::to_string(static_cast<int>(kind)), tls};
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // dup2 onto itself clears close-on-exec in posix_spawn.
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], kSourceSocket);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program, &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(sockets[1]);
  if (error != 0) {
    errno = error;
    give_up("posix_spawn");
  }
  return std::shared_ptr<SourceProcess>(new SourceProcess(pid, sockets[0]));
}

SourceProcess::~SourceProcess() {
  kill();
  close(socket_);
}

void SourceProcess::signal(int number) { ::kill(pid_, number); }

void SourceProcess::kill() {
  if (ended_) return;
  ended_ = true;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

Result<std::string> SourceProcess::call(Op op, std::string_view payload, Deadline deadline) {
  const std::lock_guard lock(mutex_);
  std::string frame(1, static_cast<char>(op));
  frame += payload;
  if (!send_frame(socket_, frame)) return Status(Code::kPeerLost, "the source's socket is closed");
  while (true) {
    pollfd polled{socket_, POLLIN, 0};
    if (poll(&polled, 1, deadline.remaining_ms()) == 0) {
      ++unanswered_;
      return Status(Code::kDeadline, "the source does not answer");
    }
    auto reply = receive_frame(socket_);
    if (!reply) return Status(Code::kPeerLost, "the source closed its socket");
    if (unanswered_ != 0) {
      --unanswered_;
      continue;
    }
    std::string_view rest(*reply);
    const auto code = static_cast<Code>(take_word(rest));
    const auto error = static_cast<int>(take_word(rest));
    if (code == Code::kOk) return std::string(rest);
    return Status(code, std::string(rest)).with_errno(error);
  }
}

Result<std::string> SourceProcess::call(Op op, std::string_view payload) {
  return call(op, payload, soon());
}

std::string SourceProcess::address() { return call(Op::kAddress).value(); }

SourceProcess::Region SourceProcess::region(MemoryKind kind, uint64_t bytes, uint64_t seed) {
  std::string request;
  put_word(request, static_cast<uint64_t>(kind));
  put_word(request, bytes);
  put_word(request, seed);
  const auto reply = call(Op::kRegion, request);
  std::string_view rest(reply.value());
  const auto id = static_cast<RegionId>(take_word(rest));
  return {id, std::string(rest)};
}

void SourceProcess::store(RegionId region, uint64_t offset, uint64_t word) {
  std::string request;
  put_word(request, region);
  put_word(request, offset);
  put_word(request, word);
  (void)call(Op::kStore, request).value();
}

std::unique_ptr<Exchange> SourceProcess::exchange(std::shared_ptr<SourceProcess> source) {
  return std::make_unique<PipeExchange>(std::move(source));
}

}  // namespace wb::test
