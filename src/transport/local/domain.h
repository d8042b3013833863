// The local transport in one process: its regions, and what it tells readers on the same host.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "observe/log.h"
#include "transport/local/fd_server.h"
#include "transport/local/regions.h"
#include "transport/local/wire.h"
#include "transport/region_table.h"
#include "transport/registry.h"
#include "transport/stamp_table.h"
#include "transport/transport.h"

namespace wb::local {

// What connections need of their domain; they may outlive it.
struct DomainState {
  ProcessAddress self;
  LocalOptions options;
  Log log;
  mutable std::mutex mutex;  // guards regions
  RegionTable<LocalRegionRecord> regions;

  // kNotFound for an unknown region.
  Result<std::shared_ptr<LocalRegionRecord>> find(RegionId region) const;
};

// A process id in a peer's address is a peer's word: this says what must hold before it is used.
Reach reach_from(const ProcessAddress& self, const ProcessAddress& peer);

class LocalDomain : public Domain {
 public:
  static Result<std::unique_ptr<Domain>> make(const DomainOptions& options);
  ~LocalDomain() override;

  TransportKind kind() const override { return TransportKind::kLocal; }
  Result<RegionId> register_region(std::shared_ptr<Allocation> memory, Access access) override;
  Status deregister_region(RegionId region) override;
  Result<std::string> export_key(RegionId region) override;
  std::string address() const override;
  Reach reach(std::string_view peer_address) const override;
  Result<std::unique_ptr<Connection>> connect(std::string_view peer_address,
                                              std::unique_ptr<Exchange> exchange,
                                              Deadline deadline) override;
  Result<std::string> handle_exchange(std::string_view payload) override;
  // Readers take bytes without the source's help.
  bool needs_source_progress() const override { return false; }
  void progress() override {}

 private:
  LocalDomain(std::shared_ptr<DomainState> state, StampTable stamps)
      : state_(std::move(state)), stamps_(std::move(stamps)) {}
  Result<std::string> answer_map(const Request& request);
  Result<std::string> answer_ptrace(const Request& request);
  YamaGrant allow_reader(uint32_t pid);

  const std::shared_ptr<DomainState> state_;
  StampTable stamps_;                 // under state_->mutex
  std::unique_ptr<FdServer> server_;  // under state_->mutex; started with the first shared region
  uint32_t ptracer_ = 0;              // under state_->mutex; the reader Yama lets in
  bool ptracer_any_ = false;          // under state_->mutex
};

}  // namespace wb::local
