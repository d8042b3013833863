#include "transport/verbs/ports.h"

#include <algorithm>
#include <bit>

namespace wb::verbs {
namespace {

std::string describe(const PortInfo& port) {
  return port.name() + " (" + (port.active ? "active" : "not active") + ", " +
         std::to_string(port.gbps) + " Gbit/s" + (port.reads ? "" : ", without RDMA READ") + ")";
}

std::string describe_all(std::span<const PortInfo> ports) {
  std::string out;
  for (const PortInfo& port : ports) out += (out.empty() ? "" : ", ") + describe(port);
  return out.empty() ? "no RDMA device at all" : out;
}

Result<std::vector<PortChoice>> choose_named(std::span<const PortInfo> ports,
                                             std::span<const std::string> wanted) {
  std::vector<PortChoice> out;
  for (const std::string& name : wanted) {
    size_t found = ports.size();
    for (size_t i = 0; i < ports.size() && found == ports.size(); ++i) {
      const bool same = name == ports[i].name() || name == ports[i].device;
      // A device without a port number means its first port that is up, else its first.
      if (same && (name == ports[i].name() || ports[i].active)) found = i;
    }
    for (size_t i = 0; i < ports.size() && found == ports.size(); ++i) {
      if (name == ports[i].device) found = i;
    }
    if (found == ports.size()) {
      return Status(Code::kUnsupported, "there is no RDMA port \"" + name +
                                            "\"; this machine has " + describe_all(ports));
    }
    if (!ports[found].active || !ports[found].reads) {
      return Status(Code::kUnsupported, "the RDMA port that the options name cannot be used: " +
                                            describe(ports[found]));
    }
    for (const PortChoice& earlier : out) {
      if (earlier.index == found) {
        return Status(Code::kInvalidArgument, "the RDMA port " + name + " is named twice");
      }
    }
    out.push_back({found, describe(ports[found]) + ": named by the options"});
  }
  return out;
}

// Bits that two GIDs have in common, up to the usual length of a subnet (/24, /64): inside one
// subnet all ports are equally near, and must be used equally.
int common_bits(const Gid& a, const Gid& b) {
  const int most = is_ipv4(a) ? 120 : 64;
  int bits = 0;
  for (size_t i = 0; i < a.size() && bits < most; ++i) {
    const auto differ = static_cast<uint8_t>(a[i] ^ b[i]);
    if (differ != 0) return std::min(most, bits + std::countl_zero(differ));
    bits += 8;
  }
  return most;
}

bool can_meet(const PathEnd& a, const PathEnd& b) {
  if (a.layer != b.layer) return false;
  if (a.layer == LinkLayer::kInfiniBand) {
    // The subnet prefix: the subnet manager gives out LIDs per subnet.
    return std::equal(a.gid.begin(), a.gid.begin() + 8, b.gid.begin());
  }
  const GidScope scope_a = scope_of(a.gid);
  const GidScope scope_b = scope_of(b.gid);
  return is_ipv4(a.gid) == is_ipv4(b.gid) &&
         (scope_a == GidScope::kLinkLocal) == (scope_b == GidScope::kLinkLocal);
}

}  // namespace

Result<std::vector<PortChoice>> choose_ports(std::span<const PortInfo> ports,
                                             std::span<const std::string> wanted, int near) {
  if (!wanted.empty()) return choose_named(ports, wanted);
  uint32_t fastest = 0;
  bool any = false;
  for (const PortInfo& port : ports) {
    if (!port.active || !port.reads) continue;
    any = true;
    fastest = std::max(fastest, port.gbps);
  }
  if (!any) {
    return Status(Code::kUnsupported, "no usable RDMA port: " + describe_all(ports));
  }
  const auto fit = [&](const PortInfo& port) {
    return port.active && port.reads && port.gbps == fastest;
  };
  const bool some_near = near >= 0 && std::any_of(ports.begin(), ports.end(), [&](const auto& p) {
                           return fit(p) && p.numa_node == near;
                         });
  std::vector<PortChoice> out;
  for (size_t i = 0; i < ports.size() && out.size() < kMaxRails; ++i) {
    if (!fit(ports[i]) || (some_near && ports[i].numa_node != near)) continue;
    out.push_back(
        {i, describe(ports[i]) + ": active and as fast as any" +
                (some_near ? ", on NUMA node " + std::to_string(near) + " as this process's memory"
                           : "")});
  }
  return out;
}

uint32_t gbps_of(uint8_t width, uint8_t speed) {
  const uint32_t lanes = width == 1    ? 1
                         : width == 2  ? 4
                         : width == 4  ? 8
                         : width == 8  ? 12
                         : width == 16 ? 2
                                       : 0;
  // In units of 0.5 Gbit/s: SDR is 2.5.
  const uint32_t halves = speed == 1                 ? 5
                          : speed == 2               ? 10
                          : speed == 4 || speed == 8 ? 20
                          : speed == 16              ? 28
                          : speed == 32              ? 50
                          : speed == 64              ? 100
                          : speed == 128             ? 200
                                                     : 0;
  return lanes * halves / 2;
}

uint32_t queue_pairs_for(uint32_t gbps) {
  if (gbps < 100) return 1;
  return std::clamp((gbps + 199) / 200, 2u, 8u);
}

Result<std::vector<RailPair>> pair_rails(std::span<const PathEnd> reader,
                                         std::span<const PathEnd> source) {
  std::vector<RailPair> out;
  std::vector<uint32_t> uses(source.size(), 0);
  for (size_t r = 0; r < reader.size(); ++r) {
    size_t best = source.size();
    int best_bits = -1;
    for (size_t s = 0; s < source.size(); ++s) {
      if (!can_meet(reader[r], source[s])) continue;
      const int bits = common_bits(reader[r].gid, source[s].gid);
      const bool better =
          best == source.size() || bits > best_bits || (bits == best_bits && uses[s] < uses[best]);
      if (better) {
        best = s;
        best_bits = bits;
      }
    }
    if (best == source.size()) continue;
    ++uses[best];
    out.push_back({r, best,
                   gid_text(reader[r].gid) + " to " + gid_text(source[best].gid) + ", which has " +
                       std::to_string(best_bits) + " bits of its network in common"});
  }
  if (out.empty()) {
    std::string theirs;
    for (const PathEnd& end : source) theirs += (theirs.empty() ? "" : ", ") + gid_text(end.gid);
    return Status(
        Code::kUnavailable,
        "no NIC here and there are of one network and address family; the peer has " + theirs);
  }
  return out;
}

}  // namespace wb::verbs
