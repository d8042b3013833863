#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/hash.h"
#include "control/http_client.h"
#include "control/peer.h"

namespace wb {
namespace {

constexpr size_t kMaxTokenFile = 8192;

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

bool token_equal(std::string_view a, std::string_view b) {
  // The time depends on the length of `a` (the other side's words) only; a length is no secret, and
  // `b` is compared with itself padded where the lengths differ.
  unsigned char different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char mine = b.empty() ? '\0' : b[i % b.size()];
    different = static_cast<unsigned char>(different | (a[i] ^ mine));
  }
  const unsigned char zero = 0;
  return CRYPTO_memcmp(&different, &zero, 1) == 0;
}

Result<std::string> read_token_file(const std::string& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return errno_status(errno, "token file " + path);
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return errno_status(errno, "token file " + path);
  if (!S_ISREG(info.st_mode)) {
    return Status(Code::kInvalidArgument, "token file " + path + " is not a regular file");
  }
  if ((info.st_mode & (S_IRGRP | S_IROTH)) != 0) {
    return Status(Code::kPermission,
                  "token file " + path + " can be read by others: chmod 600 " + path);
  }
  std::string text(kMaxTokenFile, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_status(errno, "token file " + path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(std::min(size, text.find('\n')));
  while (!text.empty() &&
         std::string_view(" \t\r\v\f").find(text.back()) != std::string_view::npos) {
    text.pop_back();
  }
  if (text.empty()) {
    return Status(Code::kInvalidArgument, "token file " + path + " has an empty first line");
  }
  WB_RETURN_IF_ERROR(check_token_words(text).prefixed("token file " + path + ": "));
  return text;
}

}  // namespace wb
