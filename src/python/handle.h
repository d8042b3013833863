// A handle of the library that belongs to one Python object.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>
#include <weightbridge/weightbridge.h>

#include <string>
#include <utility>

#include "python/errors.h"

namespace wb::python {

// A child made by fork has a copy of the object, but none of the library's threads behind it: there
// the handle is neither used nor closed.
class OfThisProcess {
 public:
  bool here() const { return getpid() == pid_; }
  void check() const {
    if (here()) return;
    raise(WB_FAILED_PRECONDITION,
          "the object was made by this process's parent: a child made by fork cannot use it; start "
          "it with the method spawn, or make the object in the child");
  }

 private:
  pid_t pid_ = getpid();
};

// Tables, layouts and probes: freed at once.
template <typename T, wb_code (*Free)(T*)>
class FreedHandle {
 public:
  explicit FreedHandle(T* handle) : handle_(handle) {}
  FreedHandle(const FreedHandle&) = delete;
  FreedHandle& operator=(const FreedHandle&) = delete;
  ~FreedHandle() {
    if (handle_ != nullptr && process_.here()) (void)released([&] { return Free(handle_); });
  }
  T* get() const {
    process_.check();
    return handle_;
  }

 private:
  T* handle_;
  OfThisProcess process_;
};

// Jobs, publishers and receivers: closing takes time and may fail. `what` names it in errors.
template <typename T, wb_code (*Close)(T*, int64_t)>
class ClosingHandle {
 public:
  explicit ClosingHandle(const char* what) : what_(what) {}
  ClosingHandle(const ClosingHandle&) = delete;
  ClosingHandle& operator=(const ClosingHandle&) = delete;
  ~ClosingHandle() { (void)shut(); }

  // Closes without a word. False: it could not be closed in time, and its threads go on.
  bool shut() noexcept {
    if (handle_ == nullptr || !process_.here()) return true;
    const wb_code code = released([&] { return Close(handle_, kMilliseconds); });
    if (code == WB_DEADLINE || code == WB_FAILED_PRECONDITION) return false;
    handle_ = nullptr;
    return true;
  }

  T** out() { return &handle_; }
  T* get() const {
    if (handle_ == nullptr) {
      raise(WB_FAILED_PRECONDITION, (std::string("the ") + what_ + " is closed").c_str());
    }
    process_.check();
    return handle_;
  }
  bool closed() const { return handle_ == nullptr; }
  void close(double timeout) {
    if (handle_ == nullptr) return;
    process_.check();
    const int64_t limit = milliseconds(timeout);
    const wb_code code = released([&] { return Close(handle_, limit); });
    if (code != WB_DEADLINE && code != WB_FAILED_PRECONDITION) handle_ = nullptr;
    wb::python::check(code);
  }

 private:
  static constexpr int64_t kMilliseconds = 10'000;
  const char* what_;
  T* handle_ = nullptr;
  OfThisProcess process_;
};

}  // namespace wb::python
