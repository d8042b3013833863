// The reader's side of the verbs transport.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/verbs/link.h"
#include "transport/verbs/state.h"

namespace wb::verbs {

class VerbsConnection : public Connection {
 public:
  VerbsConnection(std::shared_ptr<const DomainState> domain, std::shared_ptr<Link> link)
      : domain_(std::move(domain)), link_(std::move(link)) {}

  Result<RemoteRegion> import_region(std::string_view key, Deadline deadline) override;
  Result<std::unique_ptr<ReadJob>> prepare(const ReadList& list,
                                           std::span<const RemoteRegion> remote,
                                           std::span<const RegionId> local) override;
  Status post(ReadJob& job) override;
  JobState poll(ReadJob& job) override;
  Status abort(ReadJob& job, Deadline deadline) override;
  Status read_words(RemoteRegion region, uint64_t offset, std::span<uint64_t> words,
                    Deadline deadline) override;
  Status alive() override { return link_->advance(); }
  std::string mechanism() const override;

  // What it asked of the NICs so far.
  PathCounters counters() const { return link_->counters(); }

 private:
  Result<VerbsJob*> own(ReadJob& job) const;

  const std::shared_ptr<const DomainState> domain_;
  const std::shared_ptr<Link> link_;
  std::vector<VerbsKey> regions_;
  std::vector<uint64_t> second_look_;  // reused: grows to the largest header
};

}  // namespace wb::verbs
