// Everything between this process and one source: a path per pair of NICs, and what runs over them.
// Connections and jobs share it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "transport/verbs/job.h"
#include "transport/verbs/path.h"
#include "transport/verbs/ports.h"
#include "transport/verbs/state.h"

namespace wb::verbs {

class Link {
 public:
  static Result<std::shared_ptr<Link>> connect(std::shared_ptr<DomainState> domain,
                                               VerbsAddress source,
                                               std::unique_ptr<Exchange> exchange,
                                               Deadline deadline);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const VerbsAddress& source() const { return source_; }
  const std::string& peer() const { return peer_; }
  size_t paths() const { return paths_.size(); }
  // Path i joins rail pair(i).reader of this process with rail pair(i).source of the source.
  const RailPair& pair(size_t i) const { return pairs_[i]; }
  // The longest READ that every path carries.
  uint32_t max_read() const;
  uint32_t scatter() const;
  bool by_processor() const;
  std::string describe() const;
  PathCounters counters() const;

  // Takes completions. Ok while at least one path works.
  Status advance();
  JobState poll(VerbsJob* job);
  // When it returns ok, no NIC touches memory for the job any more.
  Status abort(VerbsJob* job, Deadline deadline);

  // READs into `out`, ordered by waiting: on another path when one fails, until the deadline.
  Status read(const VerbsKey& key, uint64_t offset, std::span<std::byte> out, Deadline deadline);
  // The stamp of a region as it is now.
  Status check_stamp(const VerbsKey& key, Deadline deadline);
  // Makes failed paths again where the NIC is up, while at least one other works.
  void revive(Deadline deadline);

 private:
  Link(std::shared_ptr<DomainState> domain, VerbsAddress source, std::unique_ptr<Exchange> exchange)
      : domain_(std::move(domain)), source_(std::move(source)), exchange_(std::move(exchange)) {}
  Result<std::unique_ptr<Path>> new_path(const RailPair& pair) const;
  // Asks the source for the other ends, and joins them.
  Status join(std::span<const size_t> which, std::vector<std::unique_ptr<Path>>* fresh,
              Deadline deadline);
  size_t ready_path() const;  // paths() when none is
  Status failure() const;
  void post_some(VerbsJob* job);
  Status make_room(uint64_t bytes, Deadline deadline);
  // One READ of at most max_read bytes, which may not cross a slice; `rkeys` by path.
  Status read_part(std::span<const uint32_t> rkeys, uint64_t address, uint32_t bytes,
                   Deadline deadline);
  Status wait_for_words(Deadline deadline);
  bool check_stamps(VerbsJob* job);
  Status post_stamps(const VerbsJob& job);

  const std::shared_ptr<DomainState> domain_;
  const VerbsAddress source_;
  const std::unique_ptr<Exchange> exchange_;
  std::string peer_;
  std::vector<Digest> connections_;  // as the source names what it granted
  std::vector<RailPair> pairs_;
  // Registered room for words and stamps; the paths' queue pairs go before it.
  std::shared_ptr<const Registration> words_room_;
  std::shared_ptr<const Registration> stamps_room_;
  WordsRead words_;
  WordsRead stamps_;
  const VerbsJob* stamps_job_ = nullptr;  // whose stamps are being read
  uint32_t stamps_first_ = 0;             // slot that the room begins with
  std::vector<std::unique_ptr<Path>> paths_;
  size_t next_path_ = 0;
  Deadline revive_at_ = Deadline::after({});
};

}  // namespace wb::verbs
