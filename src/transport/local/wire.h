// What the local transport writes into manifests, keys and exchanges. Little-endian, fixed size;
// everything read from a peer is bounds-checked and versioned.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/status.h"

namespace wb::local {

// Who a process is, for others on the same kernel.
struct ProcessAddress {
  Digest boot_id;              // one running kernel
  uint64_t pid_namespace = 0;  // inode; process ids mean the same only inside one
  uint64_t net_namespace = 0;  // inode; abstract Unix sockets meet only inside one
  uint32_t pid = 0;
  uint64_t start_ticks = 0;  // with the process id unique while this kernel runs
  Digest incarnation;        // one life of one domain; also in the first words of its stamp table
  uint64_t stamp_table = 0;  // address of that table in the process
};

// A region that peers may read. `stamp` is in slot `slot` of the stamp table as long as the region
// is registered: a reader that finds another value has read memory that is no longer the region's.
struct RegionKey {
  Digest incarnation;
  uint32_t slot = 0;
  uint64_t stamp = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  bool mappable = false;
};

enum class Ask : uint8_t {
  kMap = 1,     // a nonce for the file descriptors of region (slot, stamp)
  kPtrace = 2,  // let this process read with process_vm_readv where Yama asks for permission
};

struct Request {
  Ask ask = Ask::kMap;
  uint32_t reader_pid = 0;
  uint32_t slot = 0;
  uint64_t stamp = 0;
};

struct MapGrant {
  Digest nonce;             // good for one connection of the reader that asked
  std::string socket_name;  // abstract, without the leading zero byte
};

// What the source says about being read by process_vm_readv.
struct PtraceGrant {
  bool dumpable = false;
  uint8_t yama_scope = 0;
  uint8_t granted = 0;  // YamaGrant
};
enum class YamaGrant : uint8_t {
  kNotNeeded = 0,
  kThisReader = 1,
  kAnyOfThisUser = 2,
  kRefused = 3,  // prctl failed
};

std::string encode(const ProcessAddress& address);
std::string encode(const RegionKey& key);
std::string encode(const Request& request);
std::string encode(const MapGrant& grant);
std::string encode(const PtraceGrant& grant);

// kBadData for anything that encode() did not make, trailing bytes included.
Result<ProcessAddress> decode_address(std::string_view bytes);
Result<RegionKey> decode_key(std::string_view bytes);
Result<Request> decode_request(std::string_view bytes);
Result<MapGrant> decode_map_grant(std::string_view bytes);
Result<PtraceGrant> decode_ptrace_grant(std::string_view bytes);

}  // namespace wb::local
