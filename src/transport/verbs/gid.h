// Which entry of a port's GID table to use: a pure function over the table.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace wb::verbs {

using Gid = std::array<uint8_t, 16>;

enum class LinkLayer : uint8_t { kInfiniBand = 1, kEthernet = 2 };
enum class GidType : uint8_t { kInfiniBand = 0, kRoce1 = 1, kRoce2 = 2 };

struct GidRow {
  Gid gid{};
  uint32_t index = 0;
  GidType type = GidType::kInfiniBand;
};

// How far a GID's address reaches, best first.
enum class GidScope : uint8_t { kIpv4 = 0, kIpv6 = 1, kLinkLocal = 2, kUnusable = 3 };

bool is_ipv4(const Gid& gid);
GidScope scope_of(const Gid& gid);
// "10.0.0.1" or "fe80::1".
std::string gid_text(const Gid& gid);

struct GidChoice {
  GidRow row;
  std::string reason;
};

// Ethernet: RoCE v2 only, routable IPv4 first, then routable IPv6, link-local last; among equals
// the lowest index. InfiniBand: index 0. `wanted` >= 0 names an index, whatever its kind.
// kNotFound says what the table holds.
Result<GidChoice> choose_gid(std::span<const GidRow> table, LinkLayer layer, int wanted);

}  // namespace wb::verbs
