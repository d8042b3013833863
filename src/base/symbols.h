// Functions of a library that is opened at run time.
#pragma once

#include <dlfcn.h>

#include <string>

namespace wb {

class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  // Null when the library has no such name.
  template <typename F>
  void get(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  // The first name that the library does not have; empty: it had all.
  const std::string& missing() const { return missing_; }

 private:
  void* const library_;
  std::string missing_;
};

}  // namespace wb
