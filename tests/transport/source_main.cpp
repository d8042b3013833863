// The source of the transport tests: a process of its own, executed, that knows only its socket.
#include <dirent.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "source_protocol.h"
#include "transport/registry.h"

namespace wb::test {
namespace {

uint64_t entries_of(const char* path) {
  DIR* directory = opendir(path);
  uint64_t count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

uint64_t lines_of(const char* path) {
  std::ifstream file(path);
  uint64_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

class Source {
 public:
  explicit Source(std::unique_ptr<Domain> domain) : domain_(std::move(domain)) {}
  ~Source() {
    stop_ = true;
    for (auto& thread : flippers_) thread.join();
  }

  void serve() {
    const bool help = domain_->needs_source_progress();
    while (true) {
      pollfd polled{kSourceSocket, POLLIN, 0};
      if (help) domain_->progress();
      if (poll(&polled, 1, help ? 0 : -1) <= 0) continue;
      const auto frame = receive_frame(kSourceSocket);
      if (!frame) return;
      std::string reply;
      const Result<std::string> answer = handle(*frame);
      put_word(reply, static_cast<uint64_t>(answer.status().code()));
      put_word(reply, static_cast<uint64_t>(answer.status().facts().sys_errno));
      reply += answer.ok() ? *answer : answer.status().message();
      if (!send_frame(kSourceSocket, reply)) return;
    }
  }

 private:
  Result<std::string> handle(std::string_view frame) {
    const auto op = static_cast<Op>(frame.front());
    frame.remove_prefix(1);
    switch (op) {
      case Op::kAddress:
        return domain_->address();
      case Op::kRegion:
        return make_region(frame);
      case Op::kExchange:
        return domain_->handle_exchange(frame);
      case Op::kDeregister: {
        const auto id = static_cast<RegionId>(take_word(frame));
        WB_RETURN_IF_ERROR(domain_->deregister_region(id));
        memory_.erase(id);
        return std::string();
      }
      case Op::kStore: {
        const auto id = static_cast<RegionId>(take_word(frame));
        const uint64_t offset = take_word(frame);
        __atomic_store_n(reinterpret_cast<uint64_t*>(memory_.at(id)->data() + offset),
                         take_word(frame), __ATOMIC_RELEASE);
        return std::string();
      }
      case Op::kDumpable:
        if (prctl(PR_SET_DUMPABLE, take_word(frame)) != 0) return errno_status(errno, "prctl");
        return std::string();
      case Op::kDropCapabilities: {
        __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
        __user_cap_data_struct data[2] = {};
        if (syscall(SYS_capset, &header, data) != 0) return errno_status(errno, "capset");
        return std::string();
      }
      case Op::kNeedsProgress:
        return std::string(domain_->needs_source_progress() ? "1" : "0");
      case Op::kCounts: {
        std::string counts;
        put_word(counts, entries_of("/proc/self/fd"));
        put_word(counts, entries_of("/proc/self/task"));
        put_word(counts, lines_of("/proc/self/maps"));
        return counts;
      }
      case Op::kStartFlipping:
        return start_flipping(frame);
    }
    return Status(Code::kInvalidArgument, "unknown op");
  }

  Result<std::string> make_region(std::string_view frame) {
    const auto kind = static_cast<MemoryKind>(take_word(frame));
    const uint64_t bytes = take_word(frame);
    const uint64_t seed = take_word(frame);
    std::shared_ptr<Allocation> memory;
    if (kind == MemoryKind::kShared) {
      WB_ASSIGN_OR_RETURN(memory, Allocation::shared(bytes, {}));
    } else if (kind == MemoryKind::kHost) {
      WB_ASSIGN_OR_RETURN(memory, Allocation::host(bytes, {}));
    } else {
      // The tests never free what a source process gave to its domain as the caller.
      WB_ASSIGN_OR_RETURN(memory,
                          Allocation::caller(aligned_alloc(64, (bytes + 63) / 64 * 64), bytes));
    }
    fill_pattern(memory->data(), bytes, seed);
    WB_ASSIGN_OR_RETURN(const RegionId id, domain_->register_region(memory, Access::kRemoteRead));
    memory_[id] = memory;
    WB_ASSIGN_OR_RETURN(const std::string key, domain_->export_key(id));
    std::string reply;
    put_word(reply, id);
    return reply + key;
  }

  std::string start_flipping(std::string_view frame) {
    const auto id = static_cast<RegionId>(take_word(frame));
    const std::chrono::microseconds rest(take_word(frame));
    flippers_.emplace_back([this, rest, memory = memory_.at(id)] {
      auto* words = reinterpret_cast<uint64_t*>(memory->data());
      for (uint32_t half = 0; !stop_; ++half) {
        for (uint64_t i = 0; i < memory->bytes() / 8; ++i) {
          __atomic_store_n(words + i, half * kTwice, __ATOMIC_RELAXED);
        }
        if (half % 1000 == 0 && rest.count() != 0) std::this_thread::sleep_for(rest);
      }
    });
    return std::string();
  }

  std::unique_ptr<Domain> domain_;
  std::map<RegionId, std::shared_ptr<Allocation>> memory_;
  std::vector<std::thread> flippers_;
  std::atomic<bool> stop_ = false;
};

int run(int argc, char** argv) {
  if (argc != 3) return 2;
  // A test that dies takes its sources along.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  DomainOptions options;
  const auto kind = static_cast<TransportKind>(std::atoi(argv[1]));
  if (kind == TransportKind::kVerbs) {
    options.verbs = parse_verbs_options(argv[2]).value();
  } else {
    options.ucx.tls = argv[2];
  }
  auto domain = make_domain(kind, options);
  if (!domain.ok()) {
    std::fprintf(stderr, "source: %s\n", domain.status().to_string().c_str());
    return 1;
  }
  Source(std::move(*domain)).serve();
  return 0;
}

}  // namespace
}  // namespace wb::test

int main(int argc, char** argv) { return wb::test::run(argc, argv); }
