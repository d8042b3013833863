// The reader's side of the ucx transport: a worker of its own and one endpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/ucx/domain.h"
#include "transport/ucx/endpoint.h"
#include "transport/ucx/job.h"

namespace wb::ucx {

class UcxConnection : public Connection {
 public:
  static Result<std::unique_ptr<Connection>> make(std::shared_ptr<const DomainState> domain,
                                                  const UcxAddress& peer,
                                                  std::unique_ptr<Exchange> exchange);
  ~UcxConnection() override;

  Result<RemoteRegion> import_region(std::string_view key, Deadline deadline) override;
  Result<std::unique_ptr<ReadJob>> prepare(const ReadList& list,
                                           std::span<const RemoteRegion> remote,
                                           std::span<const RegionId> local) override;
  Status post(ReadJob& job) override;
  JobState poll(ReadJob& job) override;
  Status abort(ReadJob& job, Deadline deadline) override;
  Status read_words(RemoteRegion region, uint64_t offset, std::span<uint64_t> words,
                    Deadline deadline) override;
  Status alive() override;
  std::string mechanism() const override;

 private:
  UcxConnection(std::shared_ptr<const DomainState> domain, const UcxAddress& peer,
                std::unique_ptr<Exchange> exchange, std::shared_ptr<Endpoint> endpoint);

  const Library& library() const { return endpoint_->library(); }
  Result<UcxJob*> own(ReadJob& job) const;
  Status check_region(RemoteRegion region) const;
  // Room for `bytes` in registered memory that reads of words land in.
  Status make_room(uint64_t bytes);
  // Reads `bytes` at `remote` into the room at `at`, and waits.
  Status get_now(const RemoteMemory& memory, uint64_t remote, uint64_t at, uint64_t bytes,
                 Deadline deadline);
  Status wait_for_unfinished(Deadline deadline);
  // While the endpoint is wired up, both sides must make progress: asks the source for a moment.
  Status help_wire_up(Deadline deadline);
  // After all data: every region of the job is still registered.
  Status check_stamps(const UcxJob& job, Deadline deadline);
  Status check_stamp(const RemoteRecord& region, Deadline deadline);

  const std::shared_ptr<const DomainState> domain_;
  const Digest peer_;  // its incarnation
  const std::unique_ptr<Exchange> exchange_;
  const std::shared_ptr<Endpoint> endpoint_;
  std::shared_ptr<const Memory> room_;
  std::vector<std::shared_ptr<const RemoteRecord>> regions_;
  std::unique_ptr<RemoteMemory> stamps_;
  void* unfinished_ = nullptr;  // a read of words whose wait ended at its deadline
  bool wired_ = false;
  Lanes lanes_;
};

}  // namespace wb::ucx
