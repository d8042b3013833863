#include "layout/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace wb {

Result<InputFile> InputFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno_status(errno, "opening " + path.string());
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    const int error = errno;
    ::close(fd);
    return errno_status(error, "looking at " + path.string());
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return Status(Code::kInvalidArgument, path.string() + " is not a regular file");
  }
  return InputFile(path, fd, static_cast<uint64_t>(info.st_size));
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::string> InputFile::read(uint64_t offset, size_t count) const {
  std::string bytes(count, '\0');
  size_t done = 0;
  while (done < count) {
    const ssize_t got =
        ::pread(fd_, bytes.data() + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_status(errno, "reading " + path_.string());
    if (got == 0) return Status(Code::kBadData, path_.string() + " ends too early");
    done += static_cast<size_t>(got);
  }
  return bytes;
}

Result<std::string> InputFile::read_all(uint64_t limit) const {
  if (size_ > limit) {
    return Status(Code::kBadData, path_.string() + " has " + std::to_string(size_) +
                                      " bytes; at most " + std::to_string(limit));
  }
  return read(0, static_cast<size_t>(size_));
}

}  // namespace wb
