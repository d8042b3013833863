#include "probe/report.h"

#include <nlohmann/json.hpp>

namespace wb::probe {

const char* kind_name(ByteKind kind) {
  switch (kind) {
    case ByteKind::kCopied:
      return "copied";
    case ByteKind::kCast:
      return "cast";
    case ByteKind::kUntouched:
      return "untouched";
    case ByteKind::kConstant:
      return "constant";
    case ByteKind::kComputed:
      return "computed";
  }
  return "unknown";
}

std::string report_json(const TensorTable& table, const Probed& probed) {
  using nlohmann::json;
  json out;
  out["digest"] = probed.digest.hex();
  out["passes"] = probed.passes;
  out["buffers"] = probed.layout.buffers.size();
  out["pieces"] = probed.layout.pieces.size();
  json& bytes = out["bytes"] = json::object();
  for (const ByteKind kind : {ByteKind::kCopied, ByteKind::kCast, ByteKind::kUntouched,
                              ByteKind::kConstant, ByteKind::kComputed}) {
    bytes[kind_name(kind)] = probed.kind_bytes[static_cast<size_t>(kind)];
  }
  out["memory"] = {{"peak_bytes", probed.peak_bytes}, {"backup_bytes", probed.backup_bytes}};
  out["seconds"] = {{"load", std::chrono::duration<double>(probed.load).count()},
                    {"read", std::chrono::duration<double>(probed.read).count()},
                    {"solve", std::chrono::duration<double>(probed.solve).count()}};
  json& ranges = out["not_copied"] = json::array();
  for (const KindRange& range : probed.ranges) {
    json one = {{"buffer", probed.layout.buffers[range.buffer].name},
                {"kind", kind_name(range.kind)},
                {"offset", range.offset},
                {"bytes", range.bytes}};
    if (range.count > 1) {
      one["count"] = range.count;
      one["pitch"] = range.pitch;
    }
    if (range.kind == ByteKind::kConstant) one["zero"] = range.zero;
    ranges.push_back(std::move(one));
  }
  Homes total;
  json& homeless = out["without_home"] = json::array();
  for (uint32_t t = 0; t < table.size(); ++t) {
    const Homes& homes = probed.homes[t];
    total.elements += homes.elements;
    total.none += homes.none;
    total.one += homes.one;
    total.more += homes.more;
    if (homes.none == 0) continue;
    json one = {{"tensor", table[t].name}, {"elements", homes.elements}, {"no_home", homes.none}};
    if (homes.cast != 0) one["cast"] = homes.cast;
    homeless.push_back(std::move(one));
  }
  out["elements"] = {{"all", total.elements},
                     {"no_home", total.none},
                     {"one_home", total.one},
                     {"more_homes", total.more}};
  json& aliases = out["aliases"] = json::array();
  for (const Alias& alias : probed.aliases) {
    aliases.push_back({{"name", alias.name}, {"owner", alias.owner}, {"offset", alias.offset}});
  }
  return out.dump();
}

}  // namespace wb::probe
