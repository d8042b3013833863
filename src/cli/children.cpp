#include "cli/children.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace wb::cli {
namespace {

constexpr size_t kKeptErrors = 8;
constexpr size_t kLongestLine = 16u << 20;

void close_fd(int* fd) {
  if (*fd >= 0) ::close(std::exchange(*fd, -1));
}

struct Pipe {
  int read = -1;
  int write = -1;
  ~Pipe() {
    close_fd(&read);
    close_fd(&write);
  }
  Status open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return errno_status(errno, "making a pipe");
    read = ends[0];
    write = ends[1];
    if (::fcntl(read, F_SETFL, O_NONBLOCK) != 0) return errno_status(errno, "setting up a pipe");
    return {};
  }
};

// In the forked child, where only async-signal-safe calls are allowed.
[[noreturn]] void become(char* const* arguments, int out, int error, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent died before the line above
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0 && ::dup2(nothing, 0) == 0 && ::dup2(out, 1) == 1 && ::dup2(error, 2) == 2 &&
      ::syscall(SYS_close_range, 3u, ~0u, 0u) == 0) {
    ::execv("/proc/self/exe", arguments);
  }
  static constexpr char kMessage[] = "weightbridge: could not execute itself\n";
  const ssize_t ignored = ::write(2, kMessage, sizeof kMessage - 1);
  (void)ignored;
  ::_exit(127);
}

}  // namespace

Result<Children> Children::make() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGHUP);
  // A reader of stdout that went away is an error of a write, not the end without tidying up.
  ::signal(SIGPIPE, SIG_IGN);
  if (const int error = ::pthread_sigmask(SIG_BLOCK, &signals, nullptr); error != 0) {
    return errno_status(error, "blocking signals");
  }
  const int fd = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return errno_status(errno, "taking signals");
  return Children(fd);
}

Children::Children(Children&& other) noexcept
    : signals_(std::exchange(other.signals_, -1)),
      children_(std::exchange(other.children_, {})),
      events_(std::exchange(other.events_, {})) {}

Children::~Children() {
  end_all();
  close_fd(&signals_);
}

Result<size_t> Children::spawn(std::string name, const std::vector<std::string>& arguments) {
  Pipe out, error;
  WB_RETURN_IF_ERROR(out.open());
  WB_RETURN_IF_ERROR(error.open());
  std::string program = "weightbridge";
  std::vector<std::string> words = arguments;
  std::vector<char*> argv{program.data()};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return errno_status(errno, "starting " + name);
  if (pid == 0) become(argv.data(), out.write, error.write, parent);
  Child child;
  child.name = std::move(name);
  child.pid = pid;
  child.pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0u));
  const int pidfd_error = errno;
  child.out.fd = std::exchange(out.read, -1);
  child.error.fd = std::exchange(error.read, -1);
  const bool watched = child.pidfd >= 0;
  children_.push_back(std::move(child));
  if (!watched) return errno_status(pidfd_error, "watching " + children_.back().name);
  return children_.size() - 1;
}

size_t Children::running() const {
  size_t count = 0;
  for (const Child& child : children_) count += child.pid >= 0 ? 1 : 0;
  return count;
}

std::string Children::last_words(size_t child) const {
  std::string text;
  for (const std::string& line : children_[child].last_errors) {
    text += (text.empty() ? "" : " | ") + line;
  }
  return text;
}

void Children::deliver(size_t child, bool error, std::string line) {
  if (error) {
    auto& kept = children_[child].last_errors;
    kept.push_back(line);
    if (kept.size() > kKeptErrors) kept.pop_front();
  }
  events_.push_back({.kind = error ? ChildEvent::Kind::kErrorLine : ChildEvent::Kind::kLine,
                     .child = child,
                     .line = std::move(line)});
}

void Children::drain(size_t child, bool error) {
  Stream& stream = error ? children_[child].error : children_[child].out;
  std::array<char, 65536> block;
  while (stream.fd >= 0) {
    const ssize_t n = ::read(stream.fd, block.data(), block.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      close_fd(&stream.fd);
      if (!stream.rest.empty()) deliver(child, error, std::exchange(stream.rest, {}));
      return;
    }
    stream.rest.append(block.data(), static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end = 0; (end = stream.rest.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      deliver(child, error, stream.rest.substr(begin, end - begin));
    }
    stream.rest.erase(0, begin);
    if (stream.rest.size() > kLongestLine) deliver(child, error, std::exchange(stream.rest, {}));
  }
}

void Children::reap(size_t index) {
  Child& child = children_[index];
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  child.pid = -1;
  close_fd(&child.pidfd);
  // Its ends of the pipes are closed, so this reads to the end.
  drain(index, false);
  drain(index, true);
  close_fd(&child.out.fd);
  close_fd(&child.error.fd);
  events_.push_back({.kind = ChildEvent::Kind::kExited,
                     .child = index,
                     .line = {},
                     .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                     .exit_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0});
}

Result<ChildEvent> Children::next(Deadline deadline) {
  while (events_.empty()) {
    enum class What { kSignal, kOut, kError, kExit };
    std::vector<pollfd> polled{{signals_, POLLIN, 0}};
    std::vector<std::pair<size_t, What>> meaning{{0, What::kSignal}};
    const auto add = [&](int fd, size_t child, What what) {
      if (fd < 0) return;
      polled.push_back({fd, POLLIN, 0});
      meaning.emplace_back(child, what);
    };
    for (size_t i = 0; i < children_.size(); ++i) {
      add(children_[i].out.fd, i, What::kOut);
      add(children_[i].error.fd, i, What::kError);
      add(children_[i].pidfd, i, What::kExit);
    }
    const int ready = ::poll(polled.data(), polled.size(), deadline.remaining_ms());
    if (ready < 0 && errno != EINTR) return errno_status(errno, "watching the ranks");
    if (ready == 0) return Status(Code::kDeadline, "no rank said anything");
    if (ready < 0) continue;
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const auto [child, what] = meaning[i];
      switch (what) {
        case What::kSignal: {
          signalfd_siginfo info;
          if (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
            events_.push_back({.kind = ChildEvent::Kind::kInterrupted, .child = 0, .line = {}});
          }
          break;
        }
        case What::kOut:
          drain(child, false);
          break;
        case What::kError:
          drain(child, true);
          break;
        case What::kExit:
          reap(child);
          break;
      }
    }
  }
  ChildEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Children::end_all() {
  for (Child& child : children_) {
    if (child.pid < 0) continue;
    // The group too: a child that has not come to setpgid yet is reached by its own id.
    ::kill(-child.pid, SIGKILL);
    ::kill(child.pid, SIGKILL);
  }
  for (size_t i = 0; i < children_.size(); ++i) {
    if (children_[i].pid >= 0) reap(i);
  }
}

}  // namespace wb::cli
