#include "cli/token.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/hash.h"

namespace wb::cli {

Status create_token_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno_status(errno, "making the token file " + path);
  const std::string line = random_id().hex() + random_id().hex() + "\n";
  const ssize_t written = ::write(fd, line.data(), line.size());
  const int error = errno;
  ::close(fd);
  if (written != static_cast<ssize_t>(line.size())) {
    ::unlink(path.c_str());
    return written < 0 ? errno_status(error, "writing the token file " + path)
                       : Status(Code::kIo, "the token file " + path + " was written in part");
  }
  return {};
}

Result<bool> make_token_file(const std::string& path) {
  if (::access(path.c_str(), F_OK) == 0 || errno != ENOENT) return false;
  WB_RETURN_IF_ERROR(create_token_file(path));
  return true;
}

}  // namespace wb::cli
