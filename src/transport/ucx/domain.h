// The ucx transport in one process: UCX's context, the worker that peers connect to, its regions.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "observe/log.h"
#include "transport/region_table.h"
#include "transport/registry.h"
#include "transport/stamp_table.h"
#include "transport/transport.h"
#include "transport/ucx/context.h"
#include "transport/ucx/wire.h"

namespace wb::ucx {

struct UcxRegion {
  std::shared_ptr<const Memory> memory;
  Access access = Access::kLocalTarget;
  StampTable::Entry entry;  // of a kRemoteRead region
};

// What connections need of their domain; they may outlive it.
struct DomainState {
  std::shared_ptr<const Context> context;
  UcxOptions options;
  Log log;
  mutable std::mutex mutex;  // guards regions
  RegionTable<const UcxRegion> regions;

  Result<std::shared_ptr<const UcxRegion>> find(RegionId region) const;
};

class UcxDomain : public Domain {
 public:
  static Result<std::unique_ptr<Domain>> make(const DomainOptions& options);
  ~UcxDomain() override;

  TransportKind kind() const override { return TransportKind::kUcx; }
  Result<RegionId> register_region(std::shared_ptr<Allocation> memory, Access access) override;
  Status deregister_region(RegionId region) override;
  Result<std::string> export_key(RegionId region) override;
  std::string address() const override { return address_; }
  Reach reach(std::string_view peer_address) const override;
  Result<std::unique_ptr<Connection>> connect(std::string_view peer_address,
                                              std::unique_ptr<Exchange> exchange,
                                              Deadline deadline) override;
  // A reader that connects asks for a moment of progress: UCX's wire-up needs both sides.
  Result<std::string> handle_exchange(std::string_view payload) override;
  // Which transport UCX takes is settled per connection, so a source helps unless it was limited to
  // transports that read without the source's processor.
  bool needs_source_progress() const override { return !one_sided_only_; }
  // Waits at most a millisecond for work.
  void progress() override;

 private:
  UcxDomain(std::shared_ptr<DomainState> state, std::shared_ptr<Worker> worker, StampTable stamps,
            std::shared_ptr<const Memory> stamp_memory, std::string stamp_rkey, int event_fd,
            const Digest& incarnation);

  const std::shared_ptr<DomainState> state_;
  const Digest incarnation_;
  const bool one_sided_only_;
  std::string address_;
  StampTable stamps_;  // under state_->mutex
  const std::shared_ptr<const Memory> stamp_memory_;
  const std::string stamp_rkey_;
  std::mutex worker_mutex_;  // guards worker_
  const std::shared_ptr<Worker> worker_;
  const int event_fd_;
};

}  // namespace wb::ucx
