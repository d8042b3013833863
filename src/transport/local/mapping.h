// A region of another process, mapped into this one for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/deadline.h"
#include "base/status.h"
#include "transport/local/unique_fd.h"
#include "transport/local/wire.h"

namespace wb::local {

class Mapping {
 public:
  // `fd` must be a memfd of at least `bytes` bytes that can neither shrink nor be opened for
  // writing by anyone but its owner: kBadData otherwise.
  static Result<std::unique_ptr<Mapping>> map(const UniqueFd& fd, uint64_t bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  Mapping(const std::byte* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  const std::byte* data_;
  uint64_t bytes_;
};

struct RegionFds {
  UniqueFd region;
  UniqueFd stamps;
};

// Presents the nonce to process `source_pid` and takes the descriptors. kUnauthenticated when the
// source closes without an answer or another process listens under its name.
Result<RegionFds> fetch_fds(const MapGrant& grant, uint32_t source_pid, Deadline deadline);

}  // namespace wb::local
