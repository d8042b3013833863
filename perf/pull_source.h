// What the pull benchmarks share: a source in another process, a reader in this one, and medians.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/registry.h"

namespace wb::perf {

using Clock = std::chrono::steady_clock;

[[noreturn]] inline void give_up(const Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

template <typename T>
T must(Result<T> result) {
  if (!result.ok()) give_up(result.status());
  return std::move(result).value();
}

inline double seconds(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// The source is in another process; the exchange is a pipe to its one loop.
class Source {
 public:
  Source(TransportKind transport, const DomainOptions& options, MemoryKind kind, uint64_t bytes) {
    if (pipe(to_) != 0 || pipe(from_) != 0) give_up(errno_status(errno, "pipe"));
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      serve(transport, options, kind, bytes);
      _exit(0);
    }
    address = receive(from_[0]);
    key = receive(from_[0]);
    place = std::stoull(receive(from_[0]));
  }
  ~Source() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    for (const int fd : {to_[0], to_[1], from_[0], from_[1]}) close(fd);
  }
  std::string ask(std::string_view payload) {
    send(to_[1], payload);
    return receive(from_[0]);
  }
  pid_t pid() const { return child_; }

  std::string address;
  std::string key;
  uint64_t place = 0;  // of the memory, in the source

 private:
  static void send(int fd, std::string_view bytes) {
    const uint64_t size = bytes.size();
    if (write(fd, &size, sizeof size) != sizeof size ||
        write(fd, bytes.data(), size) != static_cast<ssize_t>(size)) {
      _exit(1);
    }
  }
  static std::string receive(int fd) {
    uint64_t size = 0;
    if (read(fd, &size, sizeof size) != sizeof size) _exit(1);
    std::string bytes(size, '\0');
    for (size_t at = 0; at < size;) {
      const ssize_t got = read(fd, bytes.data() + at, size - at);
      if (got <= 0) _exit(1);
      at += static_cast<size_t>(got);
    }
    return bytes;
  }
  void serve(TransportKind transport, const DomainOptions& options, MemoryKind kind,
             uint64_t bytes) {
    auto domain = must(make_domain(transport, options));
    auto memory = kind == MemoryKind::kShared ? must(Allocation::shared(bytes, {}))
                                              : must(Allocation::host(bytes, {}));
    std::iota(reinterpret_cast<uint32_t*>(memory->data()),
              reinterpret_cast<uint32_t*>(memory->data() + bytes), 1u);
    const auto id = must(domain->register_region(memory, Access::kRemoteRead));
    send(from_[1], domain->address());
    send(from_[1], must(domain->export_key(id)));
    send(from_[1], std::to_string(reinterpret_cast<uint64_t>(memory->data())));
    const bool help = domain->needs_source_progress();
    while (true) {
      pollfd asked{to_[0], POLLIN, 0};
      if (help) domain->progress();
      if (poll(&asked, 1, help ? 0 : -1) > 0) {
        send(from_[1], must(domain->handle_exchange(receive(to_[0]))));
      }
    }
  }
  int to_[2];
  int from_[2];
  pid_t child_ = -1;
};

class PipeExchange : public Exchange {
 public:
  explicit PipeExchange(Source& source) : source_(source) {}
  Result<std::string> call(std::string_view payload, Deadline) override {
    return source_.ask(payload);
  }

 private:
  Source& source_;
};

// Reads what a source holds, in this process.
class Reader {
 public:
  Reader(TransportKind transport, const DomainOptions& options, Source& source, uint64_t bytes)
      : bytes_(bytes), domain_(must(make_domain(transport, options))) {
    const Deadline deadline = Deadline::after(std::chrono::minutes(10));
    connection_ =
        must(domain_->connect(source.address, std::make_unique<PipeExchange>(source), deadline));
    remote_ = must(connection_->import_region(source.key, deadline));
    target_ =
        must(domain_->register_region(must(Allocation::host(bytes, {})), Access::kLocalTarget));
  }

  // GB/s: the median of `samples` pulls of all bytes, after one that is not counted.
  double median_rate(const ReadList& list, uint64_t samples) {
    auto job = must(connection_->prepare(list, {{remote_}}, {{target_}}));
    const auto pull = [&] {
      if (const Status posted = connection_->post(*job); !posted.ok()) give_up(posted);
      while (connection_->poll(*job) == JobState::kActive) {
      }
      if (job->state() != JobState::kDone) give_up(job->status());
    };
    pull();
    std::vector<double> rates;
    for (uint64_t i = 0; i < samples; ++i) {
      rates.push_back(static_cast<double>(bytes_) / seconds(pull) / 1e9);
    }
    return median(std::move(rates));
  }
  std::string mechanism() const { return connection_->mechanism(); }

 private:
  const uint64_t bytes_;
  const std::unique_ptr<Domain> domain_;
  std::unique_ptr<Connection> connection_;
  RemoteRegion remote_;
  RegionId target_ = 0;
};

}  // namespace wb::perf
