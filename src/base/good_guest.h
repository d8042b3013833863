// What a library owes the program that it lives in: its threads take none of the program's signals,
// and its descriptors do not leak into processes that the program starts.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

namespace wb {

// In scope while a thread is started: the new thread inherits the mask, the caller gets its own
// back.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// For descriptors that a library of ours made without O_CLOEXEC.
inline void close_on_exec(int fd) { fcntl(fd, F_SETFD, FD_CLOEXEC); }

}  // namespace wb
