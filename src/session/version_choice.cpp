#include "session/version_choice.h"

#include <algorithm>

namespace wb {
namespace {

bool allowed(const Want& want, const Version& version) {
  switch (want.kind) {
    case Want::Kind::kLatest:
      return true;
    case Want::Kind::kExactly:
      return version.number == want.number;
    case Want::Kind::kAtLeast:
      return version.number >= want.number;
  }
  return false;
}

std::optional<uint32_t> slot_with(const SourceHeaders& candidate, const Version& version) {
  for (uint32_t slot = 0; slot < candidate.directory.slots(); ++slot) {
    if (held_version(candidate.directory.header(slot), candidate.expected) == version) return slot;
  }
  return std::nullopt;
}

}  // namespace

VersionChoice choose_version(const Want& want, std::span<const SourceHeaders> candidates,
                             std::span<uint32_t> slots) {
  VersionChoice choice;
  for (const SourceHeaders& candidate : candidates) {
    for (uint32_t slot = 0; slot < candidate.directory.slots(); ++slot) {
      const auto version = held_version(candidate.directory.header(slot), candidate.expected);
      if (version.has_value() && (!choice.newest_seen || *version > *choice.newest_seen))
        choice.newest_seen = version;
    }
  }
  if (candidates.empty()) return choice;
  // A version that all hold is one of the first source's.
  const SourceHeaders& first = candidates.front();
  for (uint32_t slot = 0; slot < first.directory.slots(); ++slot) {
    const auto version = held_version(first.directory.header(slot), first.expected);
    if (!version.has_value() || !allowed(want, *version)) continue;
    if (choice.found && *version <= choice.version) continue;
    const bool everywhere = std::all_of(
        candidates.begin(), candidates.end(),
        [&](const SourceHeaders& other) { return slot_with(other, *version).has_value(); });
    if (!everywhere) continue;
    choice.found = true;
    choice.version = *version;
  }
  if (choice.found) {
    for (size_t i = 0; i < candidates.size(); ++i)
      slots[i] = *slot_with(candidates[i], choice.version);
  }
  return choice;
}

}  // namespace wb
