// A cluster described by a person, as JSON: docs/dry-run.md has the format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "plan/cluster.h"
#include "plan/fabric.h"

namespace wb::cli {

struct ClusterFile {
  Cluster cluster;  // with the seats of both sides
  Fabric fabric;
  std::optional<uint64_t> read_ns;  // what one more read costs; absent: as the transport says
};

// kBadData names the member at fault ("hosts[2].nics[0].speed"): what is unknown, missing, twice
// there, out of range or zero; switches in a cycle; seats on hosts or NICs that are not there, or
// not one for each of the `trainers` and `receivers`.
Result<ClusterFile> parse_cluster(std::string_view json, uint32_t trainers, uint32_t receivers);
Result<ClusterFile> read_cluster(const std::string& path, uint32_t trainers, uint32_t receivers);

}  // namespace wb::cli
