// What connections and jobs of the local transport know about regions on both sides.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "memory/allocation.h"
#include "transport/local/mapping.h"
#include "transport/local/process_reader.h"
#include "transport/local/wire.h"
#include "transport/stamp_table.h"
#include "transport/transport.h"

namespace wb::local {

// A region of this process.
struct LocalRegionRecord {
  std::shared_ptr<Allocation> memory;
  Access access = Access::kLocalTarget;
  StampTable::Entry entry;  // of a kRemoteRead region
  std::atomic<bool> registered = true;
};

// A region of the peer.
struct RemoteRegionRecord {
  RegionKey key;
  std::unique_ptr<Mapping> data;          // null: read with process_vm_readv
  std::shared_ptr<const Mapping> stamps;  // with data
  uint64_t stamp_table = 0;               // address in the source

  bool mapped() const { return data != nullptr; }
};

// Ok while the source still had every region registered when the call looked, which is after all
// copies made before it. Mapped regions are looked at in memory, the others with one system call
// per 64.
Status check_stamps(std::span<const std::shared_ptr<const RemoteRegionRecord>> regions,
                    const ProcessReader& reader, RangeBatch& batch);

}  // namespace wb::local
