// The thread of a verbs domain: takes the asynchronous events of its devices, and looks after the
// queue pairs that answer readers.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/status.h"
#include "observe/log.h"
#include "transport/verbs/rail.h"

namespace wb::verbs {

class Watch {
 public:
  // `chore` is called about every `every` seconds, from the thread.
  static Result<std::unique_ptr<Watch>> start(std::vector<std::shared_ptr<Rail>> rails, Log log,
                                              std::function<void()> chore,
                                              std::chrono::milliseconds every);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  Watch(std::vector<std::shared_ptr<Rail>> rails, Log log, std::function<void()> chore,
        std::chrono::milliseconds every, int stop_fd)
      : rails_(std::move(rails)),
        log_(std::move(log)),
        chore_(std::move(chore)),
        every_(every),
        stop_fd_(stop_fd) {}
  void run();
  void take_events(Rail* rail);

  const std::vector<std::shared_ptr<Rail>> rails_;
  const Log log_;
  const std::function<void()> chore_;
  const std::chrono::milliseconds every_;
  const int stop_fd_;  // eventfd
  std::thread thread_;
};

}  // namespace wb::verbs
