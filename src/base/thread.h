// Starting a thread of the library: none of the program's signals, and an error instead of an
// exception where the system has no more threads.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/good_guest.h"
#include "base/status.h"

namespace wb {

// `purpose` completes "starting a thread to ...".
template <typename Function>
Result<std::thread> start_thread(const std::string& purpose, Function&& function) {
  try {
    const SignalsBlocked blocked;
    return std::thread(std::forward<Function>(function));
  } catch (const std::system_error& failure) {
    return errno_status(failure.code().value(), "starting a thread to " + purpose);
  }
}

}  // namespace wb
