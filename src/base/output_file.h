// A file that appears under its name complete or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"

namespace wb {

// kInvalidArgument if `path` exists and is not a regular file: a new file would take the place of a
// device, a folder or a link. Ok if there is nothing.
Status check_output(const std::filesystem::path& path);

// Written aside and moved to its name by commit(), with the mode that the umask leaves of 0666.
// Where the file system can, it has no name until then, so that not even a killed process leaves it
// behind. A regular file of the name is replaced. A full disk is kIo.
class OutputFile {
 public:
  static Result<OutputFile> create(std::filesystem::path path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  Status write(const void* data, uint64_t bytes);
  Status commit();

 private:
  OutputFile(std::filesystem::path path, int fd, std::string draft)
      : path_(std::move(path)), fd_(fd), draft_(std::move(draft)) {}
  std::filesystem::path path_;
  int fd_;
  std::string draft_;  // its name for now; empty: none
};

// All at once.
Status write_output(const std::filesystem::path& path, std::string_view content);

}  // namespace wb
