#include "probe/backup.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace wb::probe {

Backup::Backup(Backup&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Backup& Backup::operator=(Backup&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Backup::~Backup() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Result<Backup> Backup::make(uint64_t bytes, const std::string& folder) {
  Backup backup;
  if (bytes == 0) return backup;
  const std::string what = "the backup of " + std::to_string(bytes) + " bytes";
  int fd = -1;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (!folder.empty()) {
    fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) return errno_status(errno, what + ": a file in " + folder);
    // Allocates: a full disk is an error here, not a SIGBUS later.
    const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
    if (error != 0) {
      ::close(fd);
      return errno_status(error, what + ": a file in " + folder);
    }
    flags = MAP_SHARED;
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (data == MAP_FAILED) return errno_status(error, what);
  backup.data_ = static_cast<std::byte*>(data);
  backup.bytes_ = bytes;
  return backup;
}

}  // namespace wb::probe
