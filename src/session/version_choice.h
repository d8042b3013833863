// Which version to pull, and from which slot of every source: computed by the reader from headers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "session/header.h"
#include "session/receiver.h"
#include "session/version.h"

namespace wb {

// One needed source: its directory as read, and what its headers must carry.
struct SourceHeaders {
  DirectoryView directory;
  HeaderExpectation expected;
};

struct VersionChoice {
  Version version;
  bool found = false;
  // Newest version that any source holds, whatever is wanted: for the sentence of a deadline.
  std::optional<Version> newest_seen;
};

// The newest version that `want` allows and that every source holds in one of its slots. The slots
// go to `slots` (one per source; its size is candidates.size()). Allocates nothing.
VersionChoice choose_version(const Want& want, std::span<const SourceHeaders> candidates,
                             std::span<uint32_t> slots);

}  // namespace wb
