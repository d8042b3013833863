// Host names to addresses, by a deadline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"

namespace wb {

struct ResolvedAddress {
  std::string ip;  // numeric
  uint16_t port = 0;
};

// At least one address. A numeric host never waits; kNotFound for an unknown name, kDeadline when
// the name service does not answer in time.
Result<std::vector<ResolvedAddress>> resolve(const std::string& host, const std::string& port,
                                             Deadline deadline);

}  // namespace wb
