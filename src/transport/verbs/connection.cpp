#include "transport/verbs/connection.h"

#include <algorithm>

#include "base/checked.h"
#include "transport/run_check.h"

namespace wb::verbs {
namespace {

// Appends the keys of a remote region's slices to each path's table.
void add_remote(const VerbsKey& key, const Link& link, JobKeys* keys) {
  for (size_t path = 0; path < link.paths(); ++path) {
    const auto first =
        key.rkeys.begin() + static_cast<std::ptrdiff_t>(link.pair(path).source * key.slices());
    keys->remote[path].insert(keys->remote[path].end(), first,
                              first + static_cast<std::ptrdiff_t>(key.slices()));
  }
}

void add_local(const Registration& memory, const Link& link, JobKeys* keys) {
  for (size_t path = 0; path < link.paths(); ++path) {
    for (size_t slice = 0; slice < memory.slices(); ++slice) {
      keys->local[path].push_back(memory.lkey(link.pair(path).reader, slice));
    }
  }
}

}  // namespace

Result<RemoteRegion> VerbsConnection::import_region(std::string_view key_bytes, Deadline deadline) {
  WB_RETURN_IF_ERROR(link_->advance());
  WB_ASSIGN_OR_RETURN(VerbsKey key, decode_key(key_bytes));
  if (key.incarnation != link_->source().incarnation) {
    return Status(Code::kMismatch,
                  "the region's key belongs to another life of the peer: fetch its manifest again")
        .with_peer(link_->peer());
  }
  if (key.rails != link_->source().rails.size()) {
    return Status(Code::kBadData, "a region key has keys for " + std::to_string(key.rails) +
                                      " rails, its source has " +
                                      std::to_string(link_->source().rails.size()));
  }
  Status registered = link_->check_stamp(key, deadline);
  if (registered.code() == Code::kPeerLost && link_->advance().ok()) {
    return Status(Code::kNotFound, "the source has no region by that key any more")
        .with_peer(link_->peer());
  }
  WB_RETURN_IF_ERROR(registered);
  regions_.push_back(std::move(key));
  return static_cast<RemoteRegion>(regions_.size() - 1);
}

Result<std::unique_ptr<ReadJob>> VerbsConnection::prepare(const ReadList& list,
                                                          std::span<const RemoteRegion> remote,
                                                          std::span<const RegionId> local) {
  std::vector<uint64_t> remote_bytes;
  std::vector<uint64_t> local_bytes;
  std::vector<RegionView> remote_views;
  std::vector<RegionView> local_views;
  std::vector<std::shared_ptr<const Registration>> memory;
  JobKeys keys;
  keys.remote.resize(link_->paths());
  keys.local.resize(link_->paths());
  for (const RemoteRegion region : remote) {
    if (region >= regions_.size()) {
      return Status(Code::kInvalidArgument,
                    "remote region " + std::to_string(region) + " was not imported here");
    }
    const VerbsKey& key = regions_[region];
    remote_bytes.push_back(key.bytes);
    remote_views.push_back(
        {key.address, key.slice_bytes, static_cast<uint32_t>(keys.remote.front().size())});
    add_remote(key, *link_, &keys);
  }
  for (const RegionId region : local) {
    WB_ASSIGN_OR_RETURN(const auto record, domain_->find(region));
    if (record->access != Access::kLocalTarget) {
      return Status(Code::kInvalidArgument,
                    "region " + std::to_string(region) + " is not registered as a local target");
    }
    const Registration& target = *record->registration;
    local_bytes.push_back(target.bytes());
    local_views.push_back(
        {target.address(), target.slice_bytes(), static_cast<uint32_t>(keys.local.front().size())});
    add_local(target, *link_, &keys);
    memory.push_back(record->registration);
  }
  WB_RETURN_IF_ERROR(check_list(list, remote_bytes, local_bytes).status());
  std::vector<bool> used(remote.size(), false);
  for (const Run& run : list.runs) {
    if (run.count != 0 && run.length != 0) used[run.remote_region] = true;
  }
  std::vector<VerbsKey> stamped;
  for (size_t i = 0; i < remote.size(); ++i) {
    if (used[i]) stamped.push_back(regions_[remote[i]]);
  }
  auto pieces =
      make_pieces(list.runs, remote_views, local_views, {link_->max_read(), link_->scatter()});
  return std::unique_ptr<ReadJob>(std::make_unique<VerbsJob>(
      link_, std::move(pieces), std::move(keys), std::move(stamped), std::move(memory)));
}

Result<VerbsJob*> VerbsConnection::own(ReadJob& job) const {
  auto* verbs = dynamic_cast<VerbsJob*>(&job);
  if (verbs != nullptr && verbs->link() == link_.get()) return verbs;
  return Status(Code::kInvalidArgument, "the read job was prepared by another connection");
}

Status VerbsConnection::post(ReadJob& job) {
  WB_ASSIGN_OR_RETURN(VerbsJob* const own_job, own(job));
  if (own_job->state() != JobState::kActive) WB_RETURN_IF_ERROR(link_->advance());
  return own_job->start();
}

JobState VerbsConnection::poll(ReadJob& job) {
  const auto found = own(job);
  return found.ok() ? link_->poll(*found) : job.state();
}

Status VerbsConnection::abort(ReadJob& job, Deadline deadline) {
  WB_ASSIGN_OR_RETURN(VerbsJob* const own_job, own(job));
  if (own_job->state() != JobState::kActive && !own_job->stuck()) return Status();
  return link_->abort(own_job, deadline);
}

// A READ is complete when its bytes are in local memory (registered without relaxed ordering), and
// it is waited for: so it is ordered with everything before and after. A NIC reads aligned words
// whole; where a processor moves the bytes, two reads that agree are taken for one.
Status VerbsConnection::read_words(RemoteRegion region, uint64_t offset, std::span<uint64_t> words,
                                   Deadline deadline) {
  if (region >= regions_.size()) {
    return Status(Code::kInvalidArgument,
                  "remote region " + std::to_string(region) + " was not imported here");
  }
  const VerbsKey& key = regions_[region];
  if (words.size() > key.bytes / sizeof(uint64_t) ||
      !range_inside(offset, words.size_bytes(), key.bytes) ||
      (key.address + offset) % sizeof(uint64_t) != 0) {
    return Status(Code::kInvalidArgument,
                  "reading words outside the remote region, or not at a multiple of 8");
  }
  if (words.empty()) return Status();
  link_->revive(deadline);
  const auto out = std::as_writable_bytes(words);
  WB_RETURN_IF_ERROR(link_->read(key, offset, out, deadline));
  while (link_->by_processor()) {
    second_look_.assign(words.begin(), words.end());
    WB_RETURN_IF_ERROR(link_->read(key, offset, out, deadline));
    if (std::equal(words.begin(), words.end(), second_look_.begin())) break;
    if (deadline.expired()) {
      return Status(Code::kDeadline, "the words changed during every read until the deadline");
    }
  }
  return link_->check_stamp(key, deadline);
}

std::string VerbsConnection::mechanism() const { return "verbs " + link_->describe(); }

}  // namespace wb::verbs
