#include "transport/local/process_reader.h"

#include <cerrno>

#include "transport/local/identity.h"

namespace wb::local {

Result<uint64_t> ProcessReader::read(const RangeBatch& batch) const {
  const auto local = batch.local();
  const auto remote = batch.remote();
  const ssize_t got = process_vm_readv(static_cast<pid_t>(pid_), local.data(), local.size(),
                                       remote.data(), remote.size(), 0);
  if (got > 0) return static_cast<uint64_t>(got);
  // Nothing at all without an error: the first range is not readable.
  return failed(got == 0 ? EFAULT : errno);
}

Status ProcessReader::failed(int error) const {
  const std::string who = "process " + std::to_string(pid_);
  switch (error) {
    case ESRCH:
      return Status(Code::kPeerLost, who + " of the peer has ended").with_errno(error);
    case EFAULT:
      return Status(Code::kPeerLost, who + " of the peer no longer has the memory that it exported")
          .with_errno(error);
    case EPERM:
    case EACCES:
      return Status(Code::kPermission,
                    "process_vm_readv is forbidden: " + why_forbidden(pid_, grant_))
          .with_errno(error);
    case ENOSYS:
      return Status(Code::kUnsupported, "this kernel has no process_vm_readv").with_errno(error);
    default:
      return errno_status(error, "process_vm_readv of " + who);
  }
}

}  // namespace wb::local
