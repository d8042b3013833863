// The border of the library: turns Status into wb_code and the thread's last error, and lets no
// exception out.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "base/status.h"
#include "weightbridge/weightbridge.h"

namespace wb::capi {

// Keeps `status` as this thread's last error and returns its code. Does nothing for ok.
wb_code report(const Status& status) noexcept;
wb_code report_no_memory() noexcept;
wb_code report_exception(const char* what) noexcept;

// Runs the body of an exported call: a function that returns Status.
template <typename Body>
wb_code guarded(Body&& body) noexcept {
  try {
    const Status status = std::forward<Body>(body)();
    return status.ok() ? WB_OK : report(status);
  } catch (const std::bad_alloc&) {
    return report_no_memory();
  } catch (const std::exception& error) {
    return report_exception(error.what());
  } catch (...) {
    return report_exception("an exception of unknown type");
  }
}

// For calls that return a string of the library: `kept` is the thread's copy.
template <typename Body>
const char* guarded_string(std::string* kept, Body&& body) noexcept {
  const wb_code code = guarded([&]() -> Status {
    WB_ASSIGN_OR_RETURN(*kept, std::forward<Body>(body)());
    return Status();
  });
  return code == WB_OK ? kept->c_str() : nullptr;
}

Result<Deadline> deadline_in(int64_t timeout_ms);

// kInvalidArgument "WHAT is NULL".
Status not_null(const void* pointer, const char* what);

// A string of the caller; null is empty.
std::string text_of(const char* text);

}  // namespace wb::capi
