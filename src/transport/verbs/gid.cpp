#include "transport/verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>

namespace wb::verbs {
namespace {

std::string_view type_name(GidType type) {
  switch (type) {
    case GidType::kInfiniBand:
      return "InfiniBand";
    case GidType::kRoce1:
      return "RoCE v1";
    case GidType::kRoce2:
      return "RoCE v2";
  }
  return "unknown";
}

std::string_view scope_name(GidScope scope) {
  switch (scope) {
    case GidScope::kIpv4:
      return "routable IPv4";
    case GidScope::kIpv6:
      return "routable IPv6";
    case GidScope::kLinkLocal:
      return "link-local";
    case GidScope::kUnusable:
      return "unusable";
  }
  return "unknown";
}

std::string row_text(const GidRow& row) {
  return "index " + std::to_string(row.index) + " (" + std::string(type_name(row.type)) + ", " +
         gid_text(row.gid) + ")";
}

GidScope scope_of_ipv4(const uint8_t* address) {
  if (address[0] == 0 || address[0] == 127 || address[0] >= 224) return GidScope::kUnusable;
  if (address[0] == 169 && address[1] == 254) return GidScope::kLinkLocal;
  return GidScope::kIpv4;
}

}  // namespace

bool is_ipv4(const Gid& gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](uint8_t byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

GidScope scope_of(const Gid& gid) {
  if (is_ipv4(gid)) return scope_of_ipv4(gid.data() + 12);
  if (gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80) return GidScope::kLinkLocal;
  if (gid[0] == 0xff) return GidScope::kUnusable;  // multicast
  // ::, ::1 and the rest of the reserved block.
  if (gid[0] == 0) return GidScope::kUnusable;
  return GidScope::kIpv6;
}

std::string gid_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  if (is_ipv4(gid)) {
    inet_ntop(AF_INET, gid.data() + 12, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  }
  return text;
}

Result<GidChoice> choose_gid(std::span<const GidRow> table, LinkLayer layer, int wanted) {
  if (wanted >= 0) {
    const auto found = std::find_if(table.begin(), table.end(), [&](const GidRow& row) {
      return row.index == static_cast<uint32_t>(wanted);
    });
    if (found == table.end()) {
      return Status(Code::kNotFound,
                    "the port's GID table has nothing at index " + std::to_string(wanted));
    }
    return GidChoice{*found, "GID " + row_text(*found) + ": named by the options"};
  }
  const GidRow* best = nullptr;
  for (const GidRow& row : table) {
    if (layer == LinkLayer::kInfiniBand) {
      if (best == nullptr || row.index < best->index) best = &row;
      continue;
    }
    if (row.type != GidType::kRoce2 || scope_of(row.gid) == GidScope::kUnusable) continue;
    const auto rank = [](const GidRow& r) { return std::pair(scope_of(r.gid), r.index); };
    if (best == nullptr || rank(row) < rank(*best)) best = &row;
  }
  if (best == nullptr) {
    std::string held;
    for (const GidRow& row : table) held += (held.empty() ? "" : ", ") + row_text(row);
    return Status(Code::kNotFound,
                  "no RoCE v2 GID with an address: give the port's network interface an IP "
                  "address, or name an index (gid_index); the table holds " +
                      (held.empty() ? "nothing" : held));
  }
  if (layer == LinkLayer::kInfiniBand) {
    return GidChoice{*best, "GID " + row_text(*best) + ": the port's own"};
  }
  return GidChoice{*best, "GID " + row_text(*best) + ": the best of the table, " +
                              std::string(scope_name(scope_of(best->gid))) + " RoCE v2"};
}

}  // namespace wb::verbs
