// Reads the memory of another process with process_vm_readv, in batches.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "transport/local/wire.h"

namespace wb::local {

// The kernel takes no more (UIO_MAXIOV).
constexpr size_t kMaxRanges = 1024;

// The ranges of one call.
class RangeBatch {
 public:
  bool full() const { return count_ == kMaxRanges; }
  bool empty() const { return count_ == 0; }
  uint64_t bytes() const { return bytes_; }
  void clear() {
    count_ = 0;
    bytes_ = 0;
  }
  // Not when full(). A range that goes on where the last one ended, on both sides, makes it longer.
  void add(uint64_t remote, std::byte* local, uint64_t length) {
    bytes_ += length;
    if (count_ != 0) {
      iovec& from = remote_[count_ - 1];
      iovec& to = local_[count_ - 1];
      if (reinterpret_cast<uint64_t>(from.iov_base) + from.iov_len == remote &&
          static_cast<std::byte*>(to.iov_base) + to.iov_len == local) {
        from.iov_len += length;
        to.iov_len += length;
        return;
      }
    }
    remote_[count_] = {reinterpret_cast<void*>(remote), length};
    local_[count_] = {local, length};
    ++count_;
  }
  std::span<const iovec> remote() const { return {remote_.data(), count_}; }
  std::span<const iovec> local() const { return {local_.data(), count_}; }

 private:
  std::array<iovec, kMaxRanges> remote_;
  std::array<iovec, kMaxRanges> local_;
  size_t count_ = 0;
  uint64_t bytes_ = 0;
};

class ProcessReader {
 public:
  explicit ProcessReader(uint32_t pid) : pid_(pid) {}

  void set_grant(const PtraceGrant& grant) { grant_ = grant; }
  const PtraceGrant& grant() const { return grant_; }

  // One system call. How many bytes arrived, in the order of the ranges: at least one. kPeerLost
  // when the process is gone or has unmapped the memory, kPermission with the reason when the
  // kernel forbids it.
  Result<uint64_t> read(const RangeBatch& batch) const;

 private:
  Status failed(int error) const;
  uint32_t pid_;
  PtraceGrant grant_;
};

}  // namespace wb::local
