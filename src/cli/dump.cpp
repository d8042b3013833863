#include "cli/dump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/hash.h"
#include "layout/safetensors.h"

namespace wb::cli {
namespace {

// A temporary file in the target's folder; gone unless it was moved there. Where the file system
// can, it has no name until it is whole, so that not even a killed process leaves it behind.
class Draft {
 public:
  static Result<Draft> create(const std::filesystem::path& target) {
    const std::string folder = target.has_parent_path() ? target.parent_path().string() : ".";
    const int nameless = ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (nameless >= 0) return Draft(nameless, {});
    std::string name = beside(target);
    // Not mkstemp: its files are 0600, and what the umask would have made of 0666 cannot be asked
    // for without changing the umask of all threads.
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return errno_status(errno, "creating a file beside " + target.string());
    return Draft(fd, std::move(name));
  }
  Draft(Draft&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), name_(std::exchange(other.name_, {})) {}
  Draft& operator=(Draft&&) = delete;
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() {
    if (fd_ >= 0) ::close(fd_);
    if (!name_.empty()) ::unlink(name_.c_str());
  }

  Status write(const void* data, uint64_t bytes, const std::string& target) {
    const auto* at = static_cast<const char*>(data);
    while (bytes != 0) {
      const ssize_t n = ::write(fd_, at, static_cast<size_t>(std::min<uint64_t>(bytes, 1u << 30)));
      if (n < 0) {
        if (errno == EINTR) continue;
        return errno_status(errno, "writing " + target);
      }
      at += n;
      bytes -= static_cast<uint64_t>(n);
    }
    return {};
  }

  Status move_to(const std::filesystem::path& target) {
    // Late write errors of a full disk or a network file system show up here.
    if (::fsync(fd_) != 0) return errno_status(errno, "writing " + target.string());
    if (name_.empty()) {
      std::string name = beside(target);
      const std::string self = "/proc/self/fd/" + std::to_string(fd_);
      if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
        return errno_status(errno, "naming a file beside " + target.string());
      }
      name_ = std::move(name);
    }
    if (::close(std::exchange(fd_, -1)) != 0) {
      return errno_status(errno, "closing " + target.string());
    }
    WB_RETURN_IF_ERROR(check_dump_target(target));
    if (::rename(name_.c_str(), target.c_str()) != 0) {
      return errno_status(errno, "renaming " + name_ + " to " + target.string());
    }
    name_.clear();
    return {};
  }

 private:
  static std::string beside(const std::filesystem::path& target) {
    return target.string() + "." + random_id().hex().substr(0, 12);
  }
  Draft(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  int fd_;
  std::string name_;
};

}  // namespace

Status check_dump_target(const std::filesystem::path& path) {
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
                path.string() + " is " + kind + "; a dump replaces nothing but a regular file");
}

Status dump_safetensors(const std::filesystem::path& path, const WorkerLayout& layout,
                        std::span<std::byte* const> buffers) {
  std::vector<TensorInfo> tensors;
  for (const BufferInfo& buffer : layout.buffers) {
    tensors.push_back({buffer.name, buffer.dtype, buffer.shape});
  }
  WB_RETURN_IF_ERROR(check_dump_target(path));
  WB_ASSIGN_OR_RETURN(Draft draft, Draft::create(path));
  const std::string header = make_safetensors_header(tensors);
  WB_RETURN_IF_ERROR(draft.write(header.data(), header.size(), path.string()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    WB_RETURN_IF_ERROR(draft.write(buffers[i], tensors[i].bytes(), path.string()));
  }
  return draft.move_to(path);
}

}  // namespace wb::cli
