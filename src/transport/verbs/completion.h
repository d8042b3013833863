// What a work completion means: a typed error, and whether the path or the request is to blame.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "base/status.h"

namespace wb::verbs {

// What an unsuccessful completion says about other ways to the same bytes.
enum class Blame : uint8_t {
  kPath,     // this queue pair's path: another NIC may get through
  kRequest,  // every path would answer the same
  kFlushed,  // ended because of an earlier failure, or because the queue pair was closed
};

Blame blame_of(ibv_wc_status status);

// "REM_ACCESS_ERR".
const char* completion_name(ibv_wc_status status);

struct FailedReads {
  std::string peer;
  std::string rail;
  uint32_t queue_pair = 0;
  uint64_t first = 0;  // reads of the job, in its order
  uint64_t count = 0;
};

// The status and the vendor's syndrome are in the sentence, and (syndrome << 32 | status) is its
// vendor fact.
Status completion_status(ibv_wc_status status, uint32_t vendor_error, const FailedReads& where);

}  // namespace wb::verbs
