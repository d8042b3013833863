#include "python/errors.h"

#include <cmath>
#include <cstdint>

namespace wb::python {
namespace {

nb::object make(wb_code code, const char* sentence, bool retryable, int sys_errno, int64_t vendor,
                const char* peer, const char* tensor) {
  const nb::object factory = nb::module_::import_("weightbridge._errors").attr("make");
  return factory(code, sentence, retryable, sys_errno, vendor, peer, tensor);
}

}  // namespace

nb::object make_error(wb_code code) {
  const wb_error& error = *wb_last_error();
  return make(code, error.sentence, error.retryable != 0, error.sys_errno, error.vendor, error.peer,
              error.tensor);
}

void raise(wb_code code, const char* sentence) {
  const nb::object error = make(code, sentence, false, 0, 0, "", "");
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

const char* c_text(const std::string& text) {
  if (const size_t end = text.find('\0'); end != std::string::npos) {
    raise(WB_INVALID_ARGUMENT,
          ("a text with a NUL character after \"" + text.substr(0, end) + '"').c_str());
  }
  return text.c_str();
}

int64_t milliseconds(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) {
    raise(WB_INVALID_ARGUMENT, "a timeout is a number of seconds from 0 to 30 days");
  }
  return static_cast<int64_t>(std::ceil(seconds * 1e3));
}

}  // namespace wb::python
