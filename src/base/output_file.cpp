#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/hash.h"

namespace wb {
namespace {

std::string beside(const std::filesystem::path& path) {
  return path.string() + "." + random_id().hex().substr(0, 12);
}

}  // namespace

Status check_output(const std::filesystem::path& path) {
  struct stat found;
  if (::lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT ? Status() : errno_status(errno, "looking at " + path.string());
  }
  if (S_ISREG(found.st_mode)) return {};
  const char* kind = S_ISLNK(found.st_mode)    ? "a symbolic link"
                     : S_ISDIR(found.st_mode)  ? "a folder"
                     : S_ISFIFO(found.st_mode) ? "a FIFO"
                     : S_ISSOCK(found.st_mode) ? "a socket"
                                               : "a device";
  return Status(Code::kInvalidArgument,
                path.string() + " is " + kind + "; a new file replaces nothing but a regular file");
}

Result<OutputFile> OutputFile::create(std::filesystem::path path) {
  WB_RETURN_IF_ERROR(check_output(path));
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  const int nameless = ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (nameless >= 0) return OutputFile(std::move(path), nameless, {});
  std::string draft = beside(path);
  // Not mkstemp: its files are 0600, and what the umask would have made of 0666 cannot be asked for
  // without changing the umask of all threads.
  const int fd = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return errno_status(errno, "creating a file beside " + path.string());
  return OutputFile(std::move(path), fd, std::move(draft));
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      draft_(std::exchange(other.draft_, {})) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!draft_.empty()) ::unlink(draft_.c_str());
}

Status OutputFile::write(const void* data, uint64_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes != 0) {
    const ssize_t n = ::write(fd_, at, static_cast<size_t>(std::min<uint64_t>(bytes, 1u << 30)));
    if (n < 0) {
      if (errno == EINTR) continue;
      return errno_status(errno, "writing " + path_.string());
    }
    at += n;
    bytes -= static_cast<uint64_t>(n);
  }
  return {};
}

Status OutputFile::commit() {
  // Late write errors of a full disk or a network file system show up here.
  if (::fsync(fd_) != 0) return errno_status(errno, "writing " + path_.string());
  if (draft_.empty()) {
    std::string draft = beside(path_);
    const std::string self = "/proc/self/fd/" + std::to_string(fd_);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, draft.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return errno_status(errno, "naming a file beside " + path_.string());
    }
    draft_ = std::move(draft);
  }
  if (::close(std::exchange(fd_, -1)) != 0) {
    return errno_status(errno, "closing " + path_.string());
  }
  WB_RETURN_IF_ERROR(check_output(path_));
  if (::rename(draft_.c_str(), path_.c_str()) != 0) {
    return errno_status(errno, "renaming " + draft_ + " to " + path_.string());
  }
  draft_.clear();
  return {};
}

Status write_output(const std::filesystem::path& path, std::string_view content) {
  WB_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  WB_RETURN_IF_ERROR(file.write(content.data(), content.size()));
  return file.commit();
}

}  // namespace wb
