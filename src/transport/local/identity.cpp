#include "transport/local/identity.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

namespace wb::local {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<Digest> boot_id() {
  std::string hex;
  for (const char c : read_file("/proc/sys/kernel/random/boot_id")) {
    if (c != '-' && c != '\n') hex += c;
  }
  auto id = Digest::from_hex(hex);
  if (!id.ok()) {
    return Status(Code::kUnsupported, "/proc/sys/kernel/random/boot_id cannot be read");
  }
  return id;
}

Result<uint64_t> namespace_inode(const char* path) {
  struct stat info {};
  if (stat(path, &info) != 0) return errno_status(errno, path);
  return static_cast<uint64_t>(info.st_ino);
}

// `who`: a process id, or "thread-self".
std::string status_field(const std::string& who, std::string_view key) {
  std::ifstream file("/proc/" + who + "/status");
  for (std::string line; std::getline(file, line);) {
    if (std::string_view(line).starts_with(key)) return line.substr(key.size());
  }
  return "";
}

uint64_t capabilities(const std::string& who, std::string_view key) {
  std::istringstream text(status_field(who, key));
  uint64_t value = 0;
  text >> std::hex >> value;
  return value;
}

// The real, effective and saved user ids are what the kernel compares.
bool same_user(uint32_t pid) {
  std::istringstream text(status_field(std::to_string(pid), "Uid:"));
  const uid_t mine = geteuid();
  for (uid_t id = 0; text >> id;) {
    if (id != mine) return false;
  }
  return true;
}

}  // namespace

Result<ProcessAddress> this_process() {
  ProcessAddress self;
  WB_ASSIGN_OR_RETURN(self.boot_id, boot_id());
  WB_ASSIGN_OR_RETURN(self.pid_namespace, namespace_inode("/proc/self/ns/pid"));
  WB_ASSIGN_OR_RETURN(self.net_namespace, namespace_inode("/proc/self/ns/net"));
  self.pid = static_cast<uint32_t>(getpid());
  WB_ASSIGN_OR_RETURN(self.start_ticks, start_ticks_of(self.pid));
  return self;
}

Result<uint64_t> start_ticks_of(uint32_t pid) {
  const std::string text = read_file("/proc/" + std::to_string(pid) + "/stat");
  // The second field is the program's name in brackets and may hold anything, brackets included.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) {
    return Status(Code::kNotFound, "there is no process " + std::to_string(pid));
  }
  std::istringstream rest(text.substr(name_end + 1));
  // Of proc(5): field 3 is the first after the name, field 22 the start time.
  std::string skipped;
  for (int field = 3; field < 22; ++field) rest >> skipped;
  uint64_t ticks = 0;
  if (!(rest >> ticks)) return Status(Code::kIo, "/proc/PID/stat has too few fields");
  return ticks;
}

Result<UniqueFd> open_process(const ProcessAddress& address) {
  const auto lost = [&address] {
    return Status(Code::kPeerLost,
                  "process " + std::to_string(address.pid) + " of the peer has ended");
  };
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, address.pid, 0)));
  if (!pidfd.valid()) {
    return errno == ESRCH ? lost() : errno_status(errno, "opening a pidfd of the peer");
  }
  // Checked after the pidfd is open: from here on it names the process that this looked at.
  const auto ticks = start_ticks_of(address.pid);
  if (!ticks.ok() || *ticks != address.start_ticks) return lost();
  return pidfd;
}

Status still_running(const UniqueFd& pidfd, uint32_t pid) {
  pollfd ended{pidfd.get(), POLLIN, 0};
  const int ready = poll(&ended, 1, 0);
  if (ready < 0 && errno != EINTR) return errno_status(errno, "polling the peer's pidfd");
  if (ready <= 0) return Status();
  return Status(Code::kPeerLost, "process " + std::to_string(pid) + " of the peer has ended");
}

uint8_t yama_scope() {
  const std::string text = read_file("/proc/sys/kernel/yama/ptrace_scope");
  uint8_t scope = 0;
  std::from_chars(text.data(), text.data() + text.size(), scope);
  return scope;
}

std::string why_forbidden(uint32_t pid, const PtraceGrant& source) {
  const std::string who = "process " + std::to_string(pid);
  const std::string else_do = ", or let the source publish shared memory, which readers can map";
  if (!same_user(pid)) {
    return who +
           " runs as another user: run both as the same user, or give the reader "
           "CAP_SYS_PTRACE" +
           else_do;
  }
  if (!source.dumpable) {
    return who +
           " is not dumpable (PR_SET_DUMPABLE is 0, or its program changed user): make it "
           "dumpable, or give the reader CAP_SYS_PTRACE" +
           else_do;
  }
  const uint64_t theirs = capabilities(std::to_string(pid), "CapPrm:");
  // Capabilities belong to threads.
  const uint64_t mine = capabilities("thread-self", "CapEff:");
  if ((theirs & ~mine) != 0) {
    return who +
           " holds capabilities that this process lacks: start both with the same ones, or "
           "give the reader CAP_SYS_PTRACE" +
           else_do;
  }
  if (source.yama_scope >= 3) {
    return "kernel.yama.ptrace_scope is 3 (nobody may): it cannot be lowered before a reboot; let "
           "the source publish shared memory, which readers can map";
  }
  if (source.yama_scope == 2) {
    return "kernel.yama.ptrace_scope is 2 (administrators only): set it to 0 or 1, or give the "
           "reader CAP_SYS_PTRACE" +
           else_do;
  }
  if (source.yama_scope == 1 && source.granted != static_cast<uint8_t>(YamaGrant::kThisReader) &&
      source.granted != static_cast<uint8_t>(YamaGrant::kAnyOfThisUser)) {
    return "kernel.yama.ptrace_scope is 1 and the source's PR_SET_PTRACER failed: set it to 0" +
           else_do;
  }
  return "a security module or a seccomp filter forbids it (in a container: allow "
         "process_vm_readv, or add CAP_SYS_PTRACE)" +
         else_do;
}

}  // namespace wb::local
