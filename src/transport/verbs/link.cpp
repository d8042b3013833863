#include "transport/verbs/link.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/checked.h"

namespace wb::verbs {
namespace {

constexpr std::string_view kRoom = "transport";
// One poll() posts at most this many batches.
constexpr int kBatchesPerPoll = 256;
// Reads of words take microseconds: this long the thread spins, then it sleeps until the NIC wakes
// it.
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr auto kNap = std::chrono::milliseconds(20);
// An aborted job's reads are in flight already: they mostly end by themselves within this.
constexpr auto kDrain = std::chrono::seconds(1);
constexpr auto kReviveEvery = std::chrono::seconds(2);
constexpr auto kReviveWait = std::chrono::seconds(2);

constexpr uint32_t kWordsSlot = 0;
constexpr uint32_t kStampsSlot = 1;
static_assert(kWordSlots == 2);

Status deregistered() {
  return Status(Code::kPeerLost, "the source deregistered the memory while it was read");
}

}  // namespace

Result<std::shared_ptr<Link>> Link::connect(std::shared_ptr<DomainState> domain,
                                            VerbsAddress source, std::unique_ptr<Exchange> exchange,
                                            Deadline deadline) {
  std::shared_ptr<Link> link(new Link(std::move(domain), std::move(source), std::move(exchange)));
  std::vector<PathEnd> ours;
  std::vector<PathEnd> theirs;
  for (const auto& rail : link->domain_->rails) ours.push_back(rail->end());
  for (const RailAddress& rail : link->source_.rails) theirs.push_back(rail.end);
  WB_ASSIGN_OR_RETURN(link->pairs_, pair_rails(ours, theirs));
  link->peer_ = gid_text(link->source_.rails[link->pairs_.front().source].end.gid);
  WB_ASSIGN_OR_RETURN(auto stamps,
                      Allocation::host(kStampTableBytes, {.name = "weightbridge-stamps"}));
  WB_ASSIGN_OR_RETURN(link->stamps_room_,
                      Registration::make(link->domain_->rails, std::move(stamps),
                                         Right::kLocalWrite, true, link->domain_->options));
  WB_RETURN_IF_ERROR(link->make_room(4096, deadline));
  std::vector<size_t> all;
  for (size_t i = 0; i < link->pairs_.size(); ++i) {
    WB_ASSIGN_OR_RETURN(auto path, link->new_path(link->pairs_[i]));
    link->paths_.push_back(std::move(path));
    all.push_back(i);
  }
  WB_RETURN_IF_ERROR(link->join(all, &link->paths_, deadline).with_peer(link->peer_));
  for (size_t i = 0; i < link->pairs_.size(); ++i) {
    const Path& path = *link->paths_[i];
    link->domain_->log.write(LogLevel::kInfo, kRoom, "connected to a source with verbs",
                             {{"path", link->pairs_[i].reason},
                              {"rail", path.rail().name()},
                              {"queue pairs", std::to_string(path.queue_pairs())},
                              {"read depth", std::to_string(path.depth())}});
  }
  return link;
}

Result<std::unique_ptr<Path>> Link::new_path(const RailPair& pair) const {
  const auto& rail = domain_->rails[pair.reader];
  // The slower end decides; 0 where a port does not tell its speed.
  const uint32_t theirs = source_.rails[pair.source].gbps;
  const uint32_t gbps = theirs == 0 ? rail->gbps() : std::min(rail->gbps(), theirs);
  const uint32_t wanted = domain_->options.queue_pairs;
  return Path::make(rail, wanted != 0 ? wanted : queue_pairs_for(gbps), domain_->options, peer_,
                    domain_->log);
}

Status Link::join(std::span<const size_t> which, std::vector<std::unique_ptr<Path>>* fresh,
                  Deadline deadline) {
  ConnectRequest request;
  request.source = source_.incarnation;
  request.reader = domain_->incarnation;
  request.ended = domain_->take_ended(source_.incarnation);
  for (size_t i = 0; i < which.size(); ++i) {
    request.groups.push_back((*fresh)[i]->offer(static_cast<uint8_t>(pairs_[which[i]].source)));
  }
  WB_ASSIGN_OR_RETURN(const std::string answer, exchange_->call(encode(request), deadline));
  WB_ASSIGN_OR_RETURN(const ConnectGrant grant, decode_grant(answer));
  if (grant.groups.size() != which.size()) {
    return Status(Code::kBadData, "the source granted another number of paths than asked for");
  }
  connections_.push_back(grant.connection);
  for (size_t i = 0; i < which.size(); ++i) {
    const PathEnd& end = source_.rails[pairs_[which[i]].source].end;
    WB_RETURN_IF_ERROR((*fresh)[i]->connect(end, grant.groups[i], domain_->options));
  }
  return Status();
}

Link::~Link() {
  bool clean = true;
  for (const auto& path : paths_) {
    path->fail(Status(Code::kCancelled, "the connection was closed"));
    clean = clean && path->clean();
  }
  if (!clean) {
    domain_->log.write(LogLevel::kError, kRoom,
                       "a queue pair could not be destroyed; the memory that it reads into is kept",
                       {{"source", peer_}});
    keep_for_good(std::move(words_room_));
    keep_for_good(std::move(stamps_room_));
  }
  for (const Digest& connection : connections_) {
    domain_->add_ended(source_.incarnation, connection);
  }
}

uint32_t Link::max_read() const {
  uint32_t most = domain_->options.max_read;
  for (const auto& path : paths_) most = std::min(most, path->rail().max_message());
  return most;
}

uint32_t Link::scatter() const {
  uint32_t most = domain_->options.max_sge;
  for (const auto& path : paths_) most = std::min(most, path->rail().scatter());
  return most;
}

bool Link::by_processor() const {
  return std::any_of(paths_.begin(), paths_.end(),
                     [](const auto& path) { return path->rail().by_processor(); });
}

std::string Link::describe() const {
  std::string out;
  for (const auto& path : paths_) {
    out += (out.empty() ? "" : ", ") + path->rail().name() + " (" +
           std::to_string(path->queue_pairs()) + " queue pairs, read depth " +
           std::to_string(path->ready() ? path->depth() : 0) + (path->ready() ? ")" : ", failed)");
  }
  return out;
}

PathCounters Link::counters() const {
  PathCounters sum;
  for (const auto& path : paths_) {
    sum.reads += path->counters().reads;
    sum.doorbells += path->counters().doorbells;
    sum.completions += path->counters().completions;
    sum.bytes += path->counters().bytes;
  }
  return sum;
}

size_t Link::ready_path() const {
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (paths_[i]->ready()) return i;
  }
  return paths_.size();
}

// The first path's: what came later is mostly its consequence.
Status Link::failure() const {
  for (const auto& path : paths_) {
    if (!path->failure().ok()) return path->failure();
  }
  return Status(Code::kUnavailable, "the connection was closed");
}

// Without a path that is stuck: what its queue pairs still write could fall into a later read.
Status Link::advance() {
  for (const auto& path : paths_) path->advance();
  for (const auto& path : paths_) {
    if (!path->clean()) return not_destroyed().with_peer(peer_);
  }
  if (ready_path() < paths_.size()) return Status();
  return failure();
}

void Link::post_some(VerbsJob* job) {
  int left = kBatchesPerPoll;
  bool posted = true;
  while (posted && left > 0) {
    posted = false;
    for (size_t tried = 0; tried < paths_.size() && job->has_work() && left > 0; ++tried) {
      const size_t i = next_path_;
      next_path_ = next_path_ + 1 == paths_.size() ? 0 : next_path_ + 1;
      if (!paths_[i]->ready() || !paths_[i]->post_batch(job, i)) continue;
      posted = true;
      --left;
    }
  }
}

JobState Link::poll(VerbsJob* job) {
  if (job->state() != JobState::kActive) return job->state();
  Status working = advance();
  if (working.ok()) {
    post_some(job);
    working = ready_path() < paths_.size() ? Status() : failure();
  }
  // Without any path nothing is in flight: a job that is not finished cannot go on.
  if (!working.ok()) job->stop(std::move(working));
  if (job->in_flight() != 0 || job->has_work()) return JobState::kActive;
  if (!job->failed() && !check_stamps(job)) return JobState::kActive;
  if (stamps_job_ == job) stamps_job_ = nullptr;
  job->end(job->failed() ? JobState::kFailed : JobState::kDone);
  return job->state();
}

Status Link::abort(VerbsJob* job, Deadline deadline) {
  job->stop(Status(Code::kCancelled, "the read job was aborted"));
  const Deadline drained = deadline.capped(kDrain);
  while (job->in_flight() != 0 && advance().ok() && !drained.expired()) std::this_thread::yield();
  bool clean = true;
  for (const auto& path : paths_) {
    if (path->carries(job)) path->fail(Status(Code::kCancelled, "a read job was aborted"));
    clean = clean && path->clean();
  }
  if (stamps_job_ == job) stamps_job_ = nullptr;
  if (!clean) return not_destroyed().with_peer(peer_);
  job->end(JobState::kFailed);
  return Status();
}

Status Link::make_room(uint64_t bytes, Deadline deadline) {
  if (words_room_ != nullptr && words_room_->bytes() >= bytes) return Status();
  // Nothing lands in the old room any more.
  WB_RETURN_IF_ERROR(wait_for_words(deadline));
  WB_ASSIGN_OR_RETURN(auto memory,
                      Allocation::host(round_up(bytes, 4096), {.name = "weightbridge-words"}));
  WB_ASSIGN_OR_RETURN(words_room_, Registration::make(domain_->rails, std::move(memory),
                                                      Right::kLocalWrite, true, domain_->options));
  return Status();
}

// A READ of words is in flight only while somebody waits for it, or has waited until a deadline.
Status Link::wait_for_words(Deadline deadline) {
  const Deadline spin = deadline.capped(kSpin);
  while (words_.posted) {
    WB_RETURN_IF_ERROR(advance());
    if (!words_.posted) break;
    if (deadline.expired()) {
      return Status(Code::kDeadline, "the source did not answer a read of words in time")
          .with_peer(peer_);
    }
    if (!spin.expired()) continue;
    // Which path carries it does not matter: the others wake up by the nap's end.
    const size_t path = ready_path();
    if (path < paths_.size()) WB_RETURN_IF_ERROR(paths_[path]->wait(deadline.capped(kNap)));
  }
  return Status();
}

Status Link::read_part(std::span<const uint32_t> rkeys, uint64_t address, uint32_t bytes,
                       Deadline deadline) {
  WB_RETURN_IF_ERROR(wait_for_words(deadline));
  while (true) {
    WB_RETURN_IF_ERROR(advance());
    const size_t path = ready_path();
    const uint32_t lkey = words_room_->lkey(pairs_[path].reader, 0);
    const Status posted = paths_[path]->post_words(kWordsSlot, &words_, address, rkeys[path],
                                                   words_room_->address(), bytes, lkey);
    if (!posted.ok()) continue;
    const Status waited = wait_for_words(deadline);
    if (words_.posted) return waited;
    if (words_.status.ok()) return Status();
    if (words_.blame == Blame::kRequest) return words_.status;
  }
}

Status Link::read(const VerbsKey& key, uint64_t offset, std::span<std::byte> out,
                  Deadline deadline) {
  const uint64_t most = std::min<uint64_t>(max_read(), key.slice_bytes);
  WB_RETURN_IF_ERROR(make_room(std::min<uint64_t>(out.size(), most), deadline));
  std::vector<uint32_t> rkeys(paths_.size());
  for (uint64_t done = 0; done < out.size();) {
    const uint64_t at = offset + done;
    const uint64_t slice = at / key.slice_bytes;
    const uint64_t part =
        std::min({out.size() - done, most, key.slice_bytes - at % key.slice_bytes});
    for (size_t i = 0; i < rkeys.size(); ++i) {
      rkeys[i] = key.rkeys[pairs_[i].source * key.slices() + slice];
    }
    WB_RETURN_IF_ERROR(read_part(rkeys, key.address + at, static_cast<uint32_t>(part), deadline));
    std::memcpy(out.data() + done, words_room_->memory()->data(), part);
    done += part;
  }
  return Status();
}

Status Link::check_stamp(const VerbsKey& key, Deadline deadline) {
  std::vector<uint32_t> rkeys(paths_.size());
  for (size_t i = 0; i < rkeys.size(); ++i) {
    rkeys[i] = source_.rails[pairs_[i].source].stamp_rkey;
  }
  const uint64_t address = source_.stamp_table + stamp_offset(key.slot);
  WB_RETURN_IF_ERROR(read_part(rkeys, address, sizeof(uint64_t), deadline));
  uint64_t stamp = 0;
  std::memcpy(&stamp, words_room_->memory()->data(), sizeof stamp);
  return stamp == key.stamp ? Status() : deregistered();
}

// The stamps of a job's regions lie near each other: one READ brings them all.
Status Link::post_stamps(const VerbsJob& job) {
  const size_t path = ready_path();
  if (path == paths_.size()) return failure();
  const auto [first, last] =
      std::minmax_element(job.regions().begin(), job.regions().end(),
                          [](const VerbsKey& a, const VerbsKey& b) { return a.slot < b.slot; });
  stamps_first_ = first->slot;
  const uint64_t words = uint64_t{last->slot} - first->slot + 1;
  return paths_[path]->post_words(
      kStampsSlot, &stamps_, source_.stamp_table + stamp_offset(stamps_first_),
      source_.rails[pairs_[path].source].stamp_rkey, stamps_room_->address(),
      static_cast<uint32_t>(words * sizeof(uint64_t)), stamps_room_->lkey(pairs_[path].reader, 0));
}

// After all data of the job: were its regions still registered? True when that is known, and the
// job is stopped if they were not. A key that was given out again after a deregistration would make
// the NIC read other memory without any error; this look finds out.
bool Link::check_stamps(VerbsJob* job) {
  if (job->regions().empty()) return true;
  if (stamps_.posted) return false;  // this job's, another's, or an aborted one's
  if (stamps_job_ != job) {
    if (stamps_job_ != nullptr) return false;
    stamps_job_ = job;
    stamps_.status = post_stamps(*job);
    stamps_.blame = Blame::kPath;
    if (stamps_.status.ok()) return false;
  }
  if (!stamps_.status.ok()) {
    if (stamps_.blame != Blame::kRequest && ready_path() < paths_.size()) {
      stamps_.status = post_stamps(*job);
      return false;
    }
    job->stop(stamps_.status);
  } else {
    const std::byte* room = stamps_room_->memory()->data();
    for (const VerbsKey& key : job->regions()) {
      uint64_t stamp = 0;
      std::memcpy(&stamp, room + (key.slot - stamps_first_) * sizeof stamp, sizeof stamp);
      if (stamp != key.stamp) job->stop(deregistered());
    }
  }
  return true;
}

void Link::revive(Deadline deadline) {
  if (!revive_at_.expired() || ready_path() == paths_.size()) return;
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (paths_[i]->ready() || !paths_[i]->clean()) continue;
    if (paths_[i]->rail().health() != RailHealth::kUp) continue;
    revive_at_ = Deadline::after(kReviveEvery);
    auto made = new_path(pairs_[i]);
    Status status = made.status();
    if (status.ok()) {
      std::vector<std::unique_ptr<Path>> fresh;
      fresh.push_back(std::move(*made));
      status = join(std::span(&i, 1), &fresh, deadline.capped(kReviveWait));
      if (status.ok()) paths_[i] = std::move(fresh.front());
    }
    domain_->log.write(
        LogLevel::kInfo, kRoom,
        status.ok() ? "a path to a source works again"
                    : "a path to a source could not be made again",
        {{"rail", paths_[i]->rail().name()}, {"source", peer_}, {"error", status.to_string()}});
  }
}

}  // namespace wb::verbs
