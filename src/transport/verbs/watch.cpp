#include "transport/verbs/watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>

#include "base/deadline.h"
#include "base/good_guest.h"

namespace wb::verbs {
namespace {

constexpr std::string_view kRoom = "transport";

bool of_port(ibv_event_type type) {
  return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR ||
         type == IBV_EVENT_GID_CHANGE || type == IBV_EVENT_LID_CHANGE ||
         type == IBV_EVENT_PKEY_CHANGE;
}

bool of_object(ibv_event_type type) {
  return type == IBV_EVENT_CQ_ERR || type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
         type == IBV_EVENT_QP_ACCESS_ERR;
}

}  // namespace

Result<std::unique_ptr<Watch>> Watch::start(std::vector<std::shared_ptr<Rail>> rails, Log log,
                                            std::function<void()> chore,
                                            std::chrono::milliseconds every) {
  const int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd < 0) return errno_status(errno, "making an eventfd");
  std::unique_ptr<Watch> out(
      new Watch(std::move(rails), std::move(log), std::move(chore), every, stop_fd));
  const SignalsBlocked blocked;
  out->thread_ = std::thread([watch = out.get()] { watch->run(); });
  return out;
}

Watch::~Watch() {
  const uint64_t one = 1;
  if (thread_.joinable()) {
    (void)!write(stop_fd_, &one, sizeof one);  // an eventfd at 0 takes it
    thread_.join();
  }
  close(stop_fd_);
}

void Watch::run() {
  std::vector<pollfd> polled = {{stop_fd_, POLLIN, 0}};
  for (const auto& rail : rails_) polled.push_back({rail->context()->async_fd, POLLIN, 0});
  auto due = Deadline::after(every_);
  while (true) {
    const int ready = poll(polled.data(), polled.size(), due.remaining_ms());
    if (ready < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if ((polled[i].revents & POLLIN) != 0) {
        take_events(rails_[i - 1].get());
      } else if ((polled[i].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
        // The kernel has let go of the device; its descriptor would wake this thread for ever.
        rails_[i - 1]->set_health(RailHealth::kRemoved);
        polled[i].fd = -1;
        log_.write(LogLevel::kError, kRoom, "an RDMA device was removed",
                   {{"rail", rails_[i - 1]->name()}});
      }
    }
    if (!due.expired()) continue;
    chore_();
    due = Deadline::after(every_);
  }
}

// Every event is acknowledged at once: destroying the object that it names waits for that.
void Watch::take_events(Rail* rail) {
  ibv_async_event event{};
  while (rail->verbs().get_async_event(rail->context(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    const int port = of_port(type) ? event.element.port_num : 0;
    rail->verbs().ack_async_event(&event);
    if (rail->health() == RailHealth::kRemoved) continue;  // for good
    if (of_object(type)) {
      // Its owner learns of it from completions; this says why.
      log_.write(LogLevel::kWarn, kRoom, "an RDMA device reports a broken queue",
                 {{"rail", rail->name()}, {"event", std::to_string(type)}});
      continue;
    }
    if (type == IBV_EVENT_DEVICE_FATAL) {
      rail->set_health(RailHealth::kRemoved);
      log_.write(LogLevel::kError, kRoom, "an RDMA device failed or was removed",
                 {{"rail", rail->name()}});
    } else if (of_port(type) && port == rail->port()) {
      // What the port is now, whatever the event said: several may be late.
      const std::string trouble = rail->trouble();
      const RailHealth health = trouble.empty() ? RailHealth::kUp : RailHealth::kDown;
      if (health == rail->health()) continue;
      rail->set_health(health);
      log_.write(trouble.empty() ? LogLevel::kInfo : LogLevel::kWarn, kRoom,
                 trouble.empty() ? "an RDMA port can be used again"
                                 : "an RDMA port cannot be used: " + trouble,
                 {{"rail", rail->name()}});
    }
  }
}

}  // namespace wb::verbs
