#include "cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

namespace wb::cli {
namespace {

// How long a command may take to close in order after a signal.
constexpr std::chrono::seconds kGrace{5};

struct State {
  std::mutex mutex;
  std::condition_variable came;
  bool interrupted = false;
};

// Never destroyed: the signal thread lives as long as the process.
State& state() {
  static State* const kState = new State;
  return *kState;
}

}  // namespace

void catch_interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) return;
    {
      const std::lock_guard lock(state().mutex);
      state().interrupted = true;
      state().came.notify_all();
    }
    std::this_thread::sleep_for(kGrace);
    _exit(128 + signal);
  }).detach();
}

bool interrupted() {
  const std::lock_guard lock(state().mutex);
  return state().interrupted;
}

bool wait_for_interrupt(std::chrono::duration<double> span) {
  std::unique_lock lock(state().mutex);
  return state().came.wait_for(lock, span, [] { return state().interrupted; });
}

void wait_for_interrupt() {
  std::unique_lock lock(state().mutex);
  state().came.wait(lock, [] { return state().interrupted; });
}

}  // namespace wb::cli
