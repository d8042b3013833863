// The reader's side of the local transport: one peer process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/local/domain.h"
#include "transport/local/job.h"
#include "transport/local/process_reader.h"
#include "transport/local/regions.h"
#include "transport/local/unique_fd.h"

namespace wb::local {

class LocalConnection : public Connection {
 public:
  LocalConnection(std::shared_ptr<const DomainState> domain, ProcessAddress peer, UniqueFd pidfd,
                  std::unique_ptr<Exchange> exchange);

  Result<RemoteRegion> import_region(std::string_view key, Deadline deadline) override;
  Result<std::unique_ptr<ReadJob>> prepare(const ReadList& list,
                                           std::span<const RemoteRegion> remote,
                                           std::span<const RegionId> local) override;
  Status warm(ReadJob& job, Deadline deadline) override;
  Status post(ReadJob& job) override;
  JobState poll(ReadJob& job) override;
  Status abort(ReadJob& job, Deadline deadline) override;
  Status read_words(RemoteRegion region, uint64_t offset, std::span<uint64_t> words,
                    Deadline deadline) override;
  Status alive() override;
  std::string mechanism() const override;

 private:
  Status import_mapped(RemoteRegionRecord& region, Deadline deadline);
  Status import_by_process(RemoteRegionRecord& region, Deadline deadline);
  Status ask_for_ptrace(Deadline deadline);
  Status read_words_mapped(const RemoteRegionRecord& region, uint64_t offset,
                           std::span<uint64_t> words) const;
  Status read_words_by_process(const RemoteRegionRecord& region, uint64_t offset,
                               std::span<uint64_t> words, Deadline deadline);
  Result<LocalJob*> own(ReadJob& job) const;
  std::string facts_of_peer() const;

  const std::shared_ptr<const DomainState> domain_;
  const ProcessAddress peer_;
  const UniqueFd pidfd_;
  const std::unique_ptr<Exchange> exchange_;
  std::vector<std::shared_ptr<const RemoteRegionRecord>> regions_;
  std::shared_ptr<const Mapping> stamps_;  // of the peer, once a region is mapped
  ProcessReader reader_;
  bool asked_for_ptrace_ = false;
  std::unique_ptr<RangeBatch> batch_;
  std::vector<uint64_t> second_look_;  // reused: grows to the largest header
};

}  // namespace wb::local
