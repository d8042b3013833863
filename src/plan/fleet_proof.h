// The independent proof of a fleet's parts. Shares no code with the planner.
#pragma once

#include <span>

#include "base/status.h"
#include "plan/fleet.h"

namespace wb {

// One receiver's part, taken by itself: every byte that it needs is written once, from the right
// coordinate, inside all bounds; peers' pieces have the right coordinate where they are read; each
// list from a peer has fallbacks that write the same bytes from sources that hold them.
Status prove_part(const Fleet& fleet, const FleetPart& part);

// All parts together: one for each receiver, of the same inputs, each proved, and whatever a
// receiver passes on it has itself from lists of a lower stage (so that no two wait for each
// other).
Status prove_fleet(const Fleet& fleet, std::span<const FleetPart> parts);

}  // namespace wb
