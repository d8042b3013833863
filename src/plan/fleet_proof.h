// The independent proof of a fleet's parts. Shares no code with the planner.
#pragma once

#include <span>

#include "base/status.h"
#include "plan/fleet.h"

namespace wb {

// One receiver's part, taken by itself: every byte that it needs is written once, from the right
// coordinate, inside all bounds, also where it is read from a peer's memory; each list from a peer
// has fallbacks that write the same bytes from sources that hold them. kUnproven otherwise;
// kUnsupported when the layouts are so irregular that the proof would take minutes. The shapes of
// runs are advice to a transport and are not part of the proof.
Status prove_part(const Fleet& fleet, const FleetPart& part);

// All parts together, in the order of the receivers: of the same inputs (else kMismatch), each
// proved, and whatever a receiver passes on it has itself by lists of the stage before, so that no
// two wait for each other.
Status prove_fleet(const Fleet& fleet, std::span<const FleetPart> parts);

}  // namespace wb
