// The verbs transport in one process: its NICs, its regions, and the queue pairs that answer
// readers.
#pragma once

#include <memory>
#include <string>

#include "transport/registry.h"
#include "transport/verbs/responders.h"
#include "transport/verbs/state.h"
#include "transport/verbs/watch.h"

namespace wb::verbs {

class VerbsDomain : public Domain {
 public:
  // Over libibverbs.
  static Result<std::unique_ptr<Domain>> make(const DomainOptions& options);
  // Over any table of verbs; `network` is zero for real NICs, else the id of what they are in.
  static Result<std::unique_ptr<Domain>> make_over(std::shared_ptr<const Verbs> verbs,
                                                   TransportKind kind, const Digest& network,
                                                   const DomainOptions& options);
  ~VerbsDomain() override;

  TransportKind kind() const override { return kind_; }
  Result<RegionId> register_region(std::shared_ptr<Allocation> memory, Access access) override;
  Status deregister_region(RegionId region) override;
  Result<std::string> export_key(RegionId region) override;
  std::string address() const override { return address_; }
  Reach reach(std::string_view peer_address) const override;
  Result<std::unique_ptr<Connection>> connect(std::string_view peer_address,
                                              std::unique_ptr<Exchange> exchange,
                                              Deadline deadline) override;
  Result<std::string> handle_exchange(std::string_view payload) override;
  // The NIC answers READs.
  bool needs_source_progress() const override { return false; }
  void progress() override {}

  // Connections of readers that the NICs answer now.
  size_t readers() const { return responders_->readers(); }

 private:
  void tell_if_far(const Allocation& memory) const;
  VerbsDomain(TransportKind kind, std::shared_ptr<DomainState> state, StampTable stamps,
              std::shared_ptr<const Registration> stamp_memory);
  std::string make_address() const;
  void report(const Rails& rails, const std::string& origin) const;

  const TransportKind kind_;
  const std::shared_ptr<DomainState> state_;
  StampTable stamps_;  // under state_->mutex
  const std::shared_ptr<const Registration> stamp_memory_;
  const std::string address_;
  std::unique_ptr<Responders> responders_;
  std::unique_ptr<Watch> watch_;  // calls responders_
};

}  // namespace wb::verbs
