// Reads ranges of a regular file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "base/status.h"

namespace wb {

class InputFile {
 public:
  // Follows links. Never blocks: a FIFO or a device is refused, not read.
  static Result<InputFile> open(const std::filesystem::path& path);

  InputFile(InputFile&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  InputFile& operator=(InputFile&&) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  // When it was opened.
  uint64_t size() const { return size_; }
  // Exactly `count` bytes: kBadData when the file ends before. The caller bounds `count`.
  Result<std::string> read(uint64_t offset, size_t count) const;
  // All of a small file: kBadData when it is larger than `limit`.
  Result<std::string> read_all(uint64_t limit) const;

 private:
  InputFile(std::filesystem::path path, int fd, uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}

  std::filesystem::path path_;
  int fd_;
  uint64_t size_;
};

}  // namespace wb
