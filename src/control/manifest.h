// The manifest: what a worker tells its peers. FlatBuffers on the wire (manifest.fbs),
// content-addressed by the digest of its bytes, checked by the verifier and by bounds before
// anything is believed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "layout/worker_layout.h"
#include "plan/plan.h"

namespace wb {

struct ManifestTransport {
  uint8_t kind = 0;     // transport::TransportKind
  std::string address;  // Domain::address()
  // Domain::export_key() per physical region: [slot * layout_regions + region], then the header
  // directory's last.
  std::vector<std::string> keys;
};

struct Manifest {
  std::string worker;  // "trainer-3"
  uint32_t rank = 0;
  uint32_t world = 1;
  Digest incarnation;
  Digest table_digest;
  Digest mapping_digest;  // layout_digest()
  uint32_t slots = 1;     // versions that can be held at once; each has its own set of regions
  bool in_place = true;
  WorkerLayout layout;
  std::vector<Placement> placement;    // parallel to layout.buffers
  std::vector<uint64_t> region_bytes;  // of one slot's set of regions
  std::vector<ManifestTransport> transports;
};

std::string encode_manifest(const Manifest& manifest);

// kBadData: refused by the verifier, wrong version, counts that contradict each other, pieces
// outside buffers or tensors (check_layout), a mapping digest that is not the layout's. kMismatch:
// another tensor table.
Result<Manifest> decode_manifest(std::span<const std::byte> bytes, const TensorTable& table);

}  // namespace wb
