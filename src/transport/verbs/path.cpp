#include "transport/verbs/path.h"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace wb::verbs {
namespace {

constexpr std::string_view kRoom = "transport";
constexpr uint32_t kWordsToken = 0xffff;
constexpr int kTakenAtOnce = 16;
// One advance() takes at most this many groups of completions.
constexpr int kRounds = 16;
constexpr uint32_t kRefusals = 1000;

}  // namespace

Status not_destroyed() {
  return Status(Code::kInternal,
                "a queue pair could not be destroyed: the NIC may still write to this memory");
}

Path::Channel::Channel(std::unique_ptr<QueuePair> queue_pair, uint32_t token)
    : pair(std::move(queue_pair)),
      requests(token, pair->scatter()),
      // A batch has at least one READ, so there are never more batches than queue entries.
      ring(std::bit_ceil(pair->depth())) {}

Result<std::unique_ptr<Path>> Path::make(std::shared_ptr<Rail> rail, uint32_t queue_pairs,
                                         const VerbsOptions& options, std::string peer, Log log) {
  std::unique_ptr<Path> out(new Path(std::move(rail), std::move(peer), std::move(log)));
  const Rail& on = *out->rail_;
  if (queue_pairs == 0) {
    queue_pairs = options.queue_pairs != 0 ? options.queue_pairs : queue_pairs_for(on.gbps());
  }
  queue_pairs = std::min(queue_pairs, kMaxQueuePairs - 1);
  uint32_t depth = std::max(kWindows * on.initiator_depth(), kLeastDepth);
  if (on.device().max_qp_wr > 0) {
    depth = std::min(depth, static_cast<uint32_t>(on.device().max_qp_wr));
  }
  if (depth < kBatch) {
    return Status(Code::kUnsupported, on.name() + " has send queues of " + std::to_string(depth) +
                                          " entries, fewer than one batch of reads");
  }
  // Room for every work request of every queue pair: when one fails, all that it holds are
  // flushed, signalled or not.
  const uint32_t entries = queue_pairs * depth + kWordSlots;
  WB_ASSIGN_OR_RETURN(out->completions_, CompletionQueue::make(out->rail_, entries, true));
  for (uint32_t i = 0; i < queue_pairs; ++i) {
    WB_ASSIGN_OR_RETURN(
        auto pair, QueuePair::make(out->rail_, out->completions_->get(), {depth, on.scatter()}));
    out->data_.push_back(std::make_unique<Channel>(std::move(pair), i));
  }
  WB_ASSIGN_OR_RETURN(out->words_,
                      QueuePair::make(out->rail_, out->completions_->get(), {kWordSlots, 1}));
  return out;
}

Path::~Path() { fail(Status(Code::kCancelled, "the connection was closed")); }

ConnectRequest::Group Path::offer(uint8_t source_rail) const {
  ConnectRequest::Group group;
  group.source_rail = source_rail;
  group.reader = rail_->end();
  const auto add = [&](const QueuePair& pair) {
    group.offers.push_back({pair.number(), pair.psn(), rail_->initiator_depth()});
  };
  for (const auto& channel : data_) add(*channel->pair);
  add(*words_);
  return group;
}

Status Path::connect(const PathEnd& source, const ConnectGrant::Group& grant,
                     const VerbsOptions& options) {
  if (grant.grants.size() != data_.size() + 1) {
    return Status(Code::kBadData, "the source granted " + std::to_string(grant.grants.size()) +
                                      " queue pairs instead of " +
                                      std::to_string(data_.size() + 1));
  }
  for (size_t i = 0; i < grant.grants.size(); ++i) {
    QueuePair& pair = i < data_.size() ? *data_[i]->pair : *words_;
    const QueuePairOffer& theirs = grant.grants[i];
    const uint8_t answers = std::min(theirs.depth, rail_->initiator_depth());
    WB_RETURN_IF_ERROR(pair.connect(
        {source, theirs.number, theirs.psn, std::min(grant.mtu, rail_->end().mtu), 1, answers},
        options));
  }
  ready_ = true;
  return Status();
}

uint8_t Path::depth() const { return data_.front()->pair->answers(); }

Status Path::meaning(const ibv_wc& completion, const Range& range) const {
  return completion_status(completion.status, completion.vendor_err,
                           {peer_, rail_->name(), completion.qp_num, range.first, range.count});
}

void Path::advance() {
  if (!ready_) return;
  if (rail_->health() == RailHealth::kRemoved) {
    // Its completions may never come; destroying the queue pairs ends the READs all the same.
    fail(Status(Code::kUnavailable, "the RDMA device of " + rail_->name() + " was removed"));
    return;
  }
  ibv_wc taken[kTakenAtOnce];
  for (int round = 0; round < kRounds && ready_; ++round) {
    const int got = completions_->poll(taken, kTakenAtOnce);
    if (got < 0) {
      fail(Status(Code::kIo, "the completion queue of " + rail_->name() + " is broken"));
      return;
    }
    for (int i = 0; i < got && ready_; ++i) take(taken[i]);
    if (got < kTakenAtOnce) break;
  }
  for (const auto& channel : data_) {
    if (ready_ && channel->told == 0 && !channel->idle()) seal(channel.get());
  }
}

void Path::take(const ibv_wc& completion) {
  ++counters_.completions;
  const uint32_t token = WorkRequests::token_of(completion.wr_id);
  if (token == kWordsToken) {
    take_words(completion);
  } else if (token < data_.size()) {
    take_data(data_[token].get(), completion);
  }
}

void Path::take_words(const ibv_wc& completion) {
  WordsRead*& slot = reads_[WorkRequests::position_of(completion.wr_id) % kWordSlots];
  if (slot == nullptr) return;
  WordsRead* const read = std::exchange(slot, nullptr);
  read->posted = false;
  read->status = completion.status == IBV_WC_SUCCESS ? Status() : meaning(completion, {});
  read->blame = blame_of(completion.status);
  if (!read->status.ok()) fail(read->status);
}

// Completions of a queue pair come in the order of posting. A success is always that of a batch's
// last READ, and says that everything before it has succeeded too, unsignalled or not.
void Path::take_data(Channel* channel, const ibv_wc& completion) {
  if (channel->idle()) return;
  if (completion.status == IBV_WC_SUCCESS) {
    bool told = false;
    while (!told && !channel->idle()) {
      const Batch& batch = channel->at(channel->head++);
      told = batch.told;
      channel->used -= static_cast<uint32_t>(batch.range.count);
      rail_->give_budget(batch.bytes);
      if (batch.job != nullptr) batch.job->done(batch.bytes);
    }
    --channel->told;
    return;
  }
  // The first one that is not: of a READ in the oldest batch. (After a partial post the next one
  // may be meant; the range in the message is the oldest's.) What comes after it is flushed.
  const Batch& batch = channel->at(channel->head);
  const uint32_t position = WorkRequests::position_of(completion.wr_id);
  const Range range =
      position < batch.range.count ? Range{batch.range.first + position, 1} : batch.range;
  Status status = meaning(completion, range);
  if (blame_of(completion.status) == Blame::kRequest && batch.job != nullptr) {
    batch.job->stop(status);
  }
  fail(std::move(status));
}

bool Path::carries(const VerbsJob* job) const {
  for (const auto& channel : data_) {
    for (uint32_t i = channel->head; i != channel->tail; ++i) {
      if (channel->at(i).job == job) return true;
    }
  }
  return false;
}

bool Path::post_batch(VerbsJob* job, size_t path) {
  for (size_t tried = 0; tried < data_.size() && ready_; ++tried) {
    Channel* const channel = data_[next_].get();
    next_ = next_ + 1 == data_.size() ? 0 : next_ + 1;
    // Whole batches only: a queue that is nearly full is left until a batch of it has ended, or
    // doorbells and completions would come for one READ at a time.
    if (channel->pair->depth() - channel->used < kBatch) continue;
    if (post_on(channel, job, path)) return true;
  }
  return false;
}

bool Path::post_on(Channel* channel, VerbsJob* job, size_t path) {
  const bool idle = channel->idle();
  if (!idle && rail_->budget() <= 0) return false;
  const Taken taken = job->fill(&channel->requests, path, kBatch, kBatchBytes);
  if (!rail_->take_budget(taken.bytes, idle)) return false;
  int error = 0;
  const auto wanted = static_cast<uint32_t>(taken.range.count);
  const uint32_t count = channel->requests.post(channel->pair->get(), wanted, &error);
  ++counters_.doorbells;
  if (count == 0) {
    rail_->give_budget(taken.bytes);
    refused(channel, error);
    return false;
  }
  // After a partial post, READs are in the queue whose signalled end is not.
  const uint64_t bytes = job->posted(taken, count);
  if (count < wanted) rail_->give_budget(taken.bytes - bytes);
  channel->at(channel->tail++) = {job, {taken.range.first, count}, bytes, count == wanted};
  channel->used += count;
  channel->told += count == wanted ? 1 : 0;
  channel->refusals = 0;
  counters_.reads += count;
  counters_.bytes += bytes;
  if (count < wanted) {
    // A queue that is full takes more later; what is wrong with a request stays wrong.
    if (error != ENOMEM) refused(channel, error);
    if (ready_ && channel->told == 0) seal(channel);
  }
  return true;
}

// What a partial post left in the queue is unsignalled: when it succeeds, nothing tells of it, its
// credits and its share of the budget never come back, and a job waits for ever. The next batch's
// completion tells of it, for completions come in order; where there is no next batch, this does.
void Path::seal(Channel* channel) {
  ibv_send_wr request{};
  request.wr_id = channel->requests.first_id();
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* unposted = nullptr;
  const int error = ibv_post_send(channel->pair->get(), &request, &unposted);
  ++counters_.doorbells;
  if (error != 0) return refused(channel, error);
  channel->at(channel->tail++) = {nullptr, {0, 1}, 0, true};
  ++channel->used;
  ++channel->told;
  channel->refusals = 0;
}

// A full send queue empties by itself as long as a completion will tell of it. Else it is given a
// few more chances; anything but ENOMEM is for good.
void Path::refused(Channel* channel, int error) {
  if (error == ENOMEM && (channel->told != 0 || ++channel->refusals < kRefusals)) return;
  fail(errno_status(error, "posting a read on " + rail_->name()).with_peer(peer_));
}

Status Path::post_words(uint32_t slot, WordsRead* read, uint64_t remote, uint32_t rkey,
                        uint64_t local, uint32_t bytes, uint32_t lkey) {
  ibv_sge entry{local, bytes, lkey};
  ibv_send_wr request{};
  request.wr_id = uint64_t{kWordsToken} << 8 | slot;
  request.sg_list = &entry;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = remote;
  request.wr.rdma.rkey = rkey;
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(words_->get(), &request, &refused); error != 0) {
    Status status = errno_status(error, "posting a read of words on " + rail_->name());
    fail(status);
    return status;
  }
  reads_[slot] = read;
  read->posted = true;
  return Status();
}

Status Path::wait(Deadline deadline) {
  ibv_wc taken[kTakenAtOnce];
  int got = 0;
  WB_RETURN_IF_ERROR(completions_->wait(deadline, taken, kTakenAtOnce, &got));
  if (got < 0) fail(Status(Code::kIo, "the completion queue of " + rail_->name() + " is broken"));
  for (int i = 0; i < got && ready_; ++i) take(taken[i]);
  return Status();
}

void Path::fail(Status why) {
  const bool was_ready = std::exchange(ready_, false);
  if (was_ready) failure_ = why;
  for (const auto& channel : data_) {
    if (was_ready) (void)channel->pair->to_error();  // destroying it is what counts
    const bool gone = channel->pair->destroy();
    clean_ = clean_ && gone;
    for (; !channel->idle(); ++channel->head) {
      const Batch& batch = channel->at(channel->head);
      rail_->give_budget(batch.bytes);
      if (batch.job == nullptr) continue;
      if (gone) {
        batch.job->again(batch.range);
      } else {
        batch.job->stick(not_destroyed().with_peer(peer_));
      }
    }
  }
  if (words_ != nullptr && !words_->destroy()) clean_ = false;
  for (WordsRead*& slot : reads_) {
    if (slot == nullptr) continue;
    slot->posted = false;
    slot->status = why;
    slot->blame = Blame::kPath;
    slot = nullptr;
  }
  if (was_ready && why.code() != Code::kCancelled) {
    log_.write(LogLevel::kWarn, kRoom, "a path to a source failed",
               {{"rail", rail_->name()}, {"source", peer_}, {"error", why.to_string()}});
  }
}

}  // namespace wb::verbs
