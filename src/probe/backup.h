// A copy of all buffers, in memory or in an unnamed file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace wb::probe {

class Backup {
 public:
  Backup() = default;
  Backup(Backup&& other) noexcept;
  Backup& operator=(Backup&& other) noexcept;
  Backup(const Backup&) = delete;
  Backup& operator=(const Backup&) = delete;
  ~Backup();

  // `folder` empty: in memory. kNoMemory, or the error of the file system.
  static Result<Backup> make(uint64_t bytes, const std::string& folder);

  bool exists() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace wb::probe
