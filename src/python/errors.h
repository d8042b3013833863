// A failed call of the library becomes an exception of weightbridge._errors.
#pragma once

#include <nanobind/nanobind.h>
#include <weightbridge/weightbridge.h>

#include <string>
#include <utility>

namespace wb::python {

namespace nb = nanobind;

// The exception for the calling thread's last error. Not raised. The GIL is held.
nb::object make_error(wb_code code);

// Raises one of the binding's own, with the class of `code`.
[[noreturn]] void raise(wb_code code, const char* sentence);

inline void check(wb_code code) {
  if (code == WB_OK) return;
  const nb::object error = make_error(code);
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

// Calls the library without the GIL: it may wait, and its threads may want the GIL for the log.
template <typename Call>
wb_code released(Call&& call) {
  const nb::gil_scoped_release release;
  return std::forward<Call>(call)();
}
template <typename Call>
void run(Call&& call) {
  check(released(std::forward<Call>(call)));
}

// For a call that takes a C string. Raises kInvalidArgument for a text that C would cut short.
const char* c_text(const std::string& text);

// Seconds, rounded up to milliseconds, so that a short timeout is not none. What is out of range is
// for the library to refuse.
int64_t milliseconds(double seconds);

}  // namespace wb::python
