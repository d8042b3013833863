// A store that keeps its connections and stops answering, or answers a byte now and then: every
// call ends by its own deadline, and close() ends the calls that wait for it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "memory/allocation.h"
#include "session/job_internal.h"
#include "world.h"

namespace wb::testing {
namespace {

constexpr milliseconds kSlack{500};

enum class Trouble { kNone, kSilence, kDrip };

// Carries bytes between clients and the store until there is trouble.
class Relay {
 public:
  explicit Relay(uint16_t store) : store_(store) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    stopping_ = true;
    thread_.join();
    for (const pollfd& one : fds_) ::close(one.fd);
    ::close(listener_);
  }
  const std::string& url() const { return url_; }
  void start(Trouble trouble) { trouble_ = trouble; }

 private:
  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(port);
    return at;
  }

  // Client and store lie next to each other in fds_.
  void run() {
    while (!stopping_) {
      pollfd listening{listener_, POLLIN, 0};
      if (::poll(&listening, 1, 0) == 1) take();
      const Trouble trouble = trouble_;
      if (trouble == Trouble::kDrip) std::this_thread::sleep_for(milliseconds(50));
      if (trouble == Trouble::kSilence || ::poll(fds_.data(), fds_.size(), 1) <= 0) {
        std::this_thread::sleep_for(milliseconds(1));
        continue;
      }
      for (size_t i = 0; i < fds_.size(); ++i)
        if (fds_[i].revents != 0) carry(i, trouble == Trouble::kDrip ? 1 : kMost);
    }
  }
  void take() {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int store = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in to = loopback(store_);
    EXPECT_EQ(::connect(store, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    fds_.push_back({client, POLLIN, 0});
    fds_.push_back({store, POLLIN, 0});
  }
  void carry(size_t i, size_t most) {
    std::array<char, kMost> bytes{};
    const ssize_t got = ::recv(fds_[i].fd, bytes.data(), most, MSG_DONTWAIT);
    if (got > 0) {
      (void)::send(fds_[i ^ 1].fd, bytes.data(), static_cast<size_t>(got), MSG_NOSIGNAL);
    } else {
      ::shutdown(fds_[i ^ 1].fd, SHUT_RDWR);
      fds_[i].events = 0;
    }
  }

  static constexpr size_t kMost = 65536;
  const uint16_t store_;
  int listener_ = -1;
  std::string url_;
  std::vector<pollfd> fds_;
  std::atomic<Trouble> trouble_{Trouble::kNone};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class HungStore : public ::testing::TestWithParam<Trouble> {
 protected:
  static uint16_t port_of(const std::string& url) {
    return static_cast<uint16_t>(std::stoul(url.substr(url.rfind(':') + 1)));
  }
  std::shared_ptr<Job> open_job() {
    JobOptions options;
    options.name = "test";
    options.token = "token-of-the-tests";
    options.store = relay.url();
    options.transports = {TransportKind::kLocal};
    auto job = Job::open(options, soon());
    EXPECT_TRUE(job.ok()) << job.status().to_string();
    return job.ok() ? *job : nullptr;
  }
  Result<std::unique_ptr<Publisher>> publisher(std::shared_ptr<Job> job, Deadline deadline) {
    WB_ASSIGN_OR_RETURN(auto buffers, bind_new_memory(layout, MemoryKind::kShared, {}));
    return Publisher::create(std::move(job), world.table, layout, buffers, {}, deadline);
  }
  Result<std::unique_ptr<Receiver>> receiver(std::shared_ptr<Job> job, Deadline deadline) {
    WB_ASSIGN_OR_RETURN(auto buffers, bind_new_memory(layout, MemoryKind::kHost, {}));
    ReceiverOptions options;
    options.name = "rollout-0";
    return Receiver::create(std::move(job), world.table, layout, buffers, options, deadline);
  }
  // The status of `call`, which must end within `limit` and the slack.
  template <typename Call>
  static Status timed(milliseconds limit, const Call& call) {
    const auto begun = Deadline::Clock::now();
    Status status = call();
    EXPECT_LT(Deadline::Clock::now() - begun, limit + kSlack) << status.to_string();
    return status;
  }

  World world{World::Wire::kLocal};
  Relay relay{port_of(world.store_job()->store_url())};
  const WorkerLayout layout = whole(world.table);
};

TEST_P(HungStore, ClosingEndsByItsDeadline) {
  auto trainer = publisher(open_job(), soon());
  auto rollout = receiver(open_job(), soon());
  ASSERT_TRUE(trainer.ok() && rollout.ok());
  relay.start(GetParam());
  // Publishing asks nobody.
  EXPECT_TRUE(timed(milliseconds(0), [&] { return (*trainer)->publish(1, nullptr); }).ok());
  const milliseconds limit(1000);
  for (const Status& status : {timed(limit, [&] { return (*rollout)->close(within(limit)); }),
                               timed(limit, [&] { return (*trainer)->close(within(limit)); })}) {
    EXPECT_EQ(status.code(), Code::kDeadline) << status.to_string();
  }
  const Status freed = timed(milliseconds(0), [&] {
    rollout->reset();
    trainer->reset();
    return Status();
  });
  EXPECT_TRUE(freed.ok());
}

TEST_P(HungStore, CreatingEndsByItsDeadline) {
  auto trainers_job = open_job();
  auto rollouts_job = open_job();
  relay.start(GetParam());
  const milliseconds limit(500);
  EXPECT_EQ(timed(limit, [&] { return publisher(trainers_job, within(limit)).status(); }).code(),
            Code::kDeadline);
  EXPECT_EQ(timed(limit, [&] { return receiver(rollouts_job, within(limit)).status(); }).code(),
            Code::kDeadline);
}

TEST_P(HungStore, CloseEndsAPullThatWaitsForTheNetwork) {
  auto trainer = publisher(open_job(), soon());
  auto rollout = receiver(open_job(), soon());
  ASSERT_TRUE(trainer.ok() && rollout.ok());
  ASSERT_TRUE((*trainer)->publish(1, nullptr).ok());
  std::this_thread::sleep_for(milliseconds(300));  // the receiver learns of the trainers
  relay.start(GetParam());
  Status pulled;
  std::thread pulling([&] { pulled = (*rollout)->pull({}, soon(), nullptr); });
  std::this_thread::sleep_for(milliseconds(300));
  const milliseconds limit(1000);
  EXPECT_EQ(timed(limit, [&] { return (*rollout)->close(within(limit)); }).code(), Code::kDeadline);
  const Status joined = timed(milliseconds(0), [&] {
    pulling.join();
    return Status();
  });
  EXPECT_TRUE(joined.ok());
  EXPECT_EQ(pulled.code(), Code::kCancelled) << pulled.to_string();
}

INSTANTIATE_TEST_SUITE_P(Store, HungStore, ::testing::Values(Trouble::kSilence, Trouble::kDrip),
                         [](const auto& one) {
                           return one.param == Trouble::kSilence ? "Silent" : "Drips";
                         });

}  // namespace
}  // namespace wb::testing
