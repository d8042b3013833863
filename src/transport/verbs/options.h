// What the verbs transport can be told. Every default works on ConnectX-5..8 and on soft-RoCE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace wb {

struct VerbsOptions {
  std::string library = "libibverbs.so.1";  // opened at run time
  // "mlx5_0" or "mlx5_0:1" (port), the order is kept. Empty: every active port of the fastest kind.
  std::vector<std::string> devices;
  int gid_index = -1;   // -1: chosen from the table
  uint16_t pkey = 0;    // 0: the first valid one of the port's table
  uint32_t mtu = 4096;  // at most; the two ports' active MTUs bound it too
  uint8_t sl = 0;       // service level
  uint8_t traffic_class = 0;
  uint8_t timeout = 16;      // 4.096 us * 2^timeout, then a packet is sent again
  uint8_t retry_count = 6;   // 7 never ends on soft-RoCE
  uint8_t read_depth = 128;  // READs outstanding per queue pair, at most; the devices bound it too
  uint32_t queue_pairs = 0;  // per pair of NICs, for data; 0: from the port's speed
  uint32_t max_read = 1u << 20;     // longer rows are read in parts of this size
  uint64_t nic_budget = 16u << 20;  // bytes in flight per NIC of this process, against incast
  uint64_t max_slice = uint64_t{2} << 30;  // of one memory registration
  uint32_t max_sge = 16;                   // rows that one READ may scatter
  uint32_t probe_ms = 10000;               // between looks of a source for readers that are gone
  bool relaxed_ordering = true;            // of data; headers are always strict
};

// "devices=mlx5_0+mlx5_1:1,timeout=18,...": the names are those of the fields, lists are joined by
// '+'. kInvalidArgument names the word that is wrong, and the range that is right.
Result<VerbsOptions> parse_verbs_options(std::string_view text);

Status check_verbs_options(const VerbsOptions& options);

}  // namespace wb
