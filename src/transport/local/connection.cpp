#include "transport/local/connection.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/checked.h"
#include "transport/local/identity.h"
#include "transport/run_check.h"

namespace wb::local {
namespace {

constexpr std::string_view kRoom = "transport";
using Clock = Deadline::Clock;

uint64_t micros_since(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

Piece resolve(const Run& run, const RemoteRegionRecord& remote, const LocalRegionRecord& local) {
  const uint64_t base =
      remote.mapped() ? reinterpret_cast<uint64_t>(remote.data->data()) : remote.key.address;
  Piece piece{base + run.remote_offset,
              local.memory->data() + run.local_offset,
              run.length,
              run.count,
              run.remote_pitch,
              run.local_pitch,
              run.remote_region,
              remote.mapped()};
  // Rows that touch on both sides are one row.
  const auto length = static_cast<int64_t>(run.length);
  if (piece.count > 1 && piece.remote_pitch == length && piece.local_pitch == length) {
    piece.length *= piece.count;
    piece.count = 1;
  }
  return piece;
}

}  // namespace

LocalConnection::LocalConnection(std::shared_ptr<const DomainState> domain, ProcessAddress peer,
                                 UniqueFd pidfd, std::unique_ptr<Exchange> exchange)
    : domain_(std::move(domain)),
      peer_(peer),
      pidfd_(std::move(pidfd)),
      exchange_(std::move(exchange)),
      reader_(peer.pid),
      batch_(std::make_unique<RangeBatch>()) {}

std::string LocalConnection::facts_of_peer() const { return "pid " + std::to_string(peer_.pid); }

Result<RemoteRegion> LocalConnection::import_region(std::string_view key, Deadline deadline) {
  auto region = std::make_shared<RemoteRegionRecord>();
  WB_ASSIGN_OR_RETURN(region->key, decode_key(key));
  if (region->key.incarnation != peer_.incarnation) {
    return Status(Code::kMismatch,
                  "the region's key belongs to another life of the peer: fetch "
                  "its manifest again")
        .with_peer(facts_of_peer());
  }
  if (region->key.slot >= kStampSlots) {
    return Status(Code::kBadData, "a region key names a slot that no source has");
  }
  region->stamp_table = peer_.stamp_table;
  const auto start = Clock::now();
  // Decided by what the key and the namespaces say, never by a failure: a mapping that should work
  // and does not is an error.
  const bool mapped = region->key.mappable && peer_.net_namespace == domain_->self.net_namespace;
  Status imported =
      mapped ? import_mapped(*region, deadline) : import_by_process(*region, deadline);
  if (!imported.ok()) return std::move(imported).with_peer(facts_of_peer());
  domain_->log.write(LogLevel::kInfo, kRoom,
                     mapped ? "mapped a peer's shared region"
                            : "a peer's region is read with "
                              "process_vm_readv",
                     {{"peer", facts_of_peer()},
                      {"bytes", std::to_string(region->key.bytes)},
                      {"microseconds", std::to_string(micros_since(start))}});
  regions_.push_back(std::move(region));
  return static_cast<RemoteRegion>(regions_.size() - 1);
}

Status LocalConnection::import_mapped(RemoteRegionRecord& region, Deadline deadline) {
  const Request request{Ask::kMap, static_cast<uint32_t>(getpid()), region.key.slot,
                        region.key.stamp};
  WB_ASSIGN_OR_RETURN(const std::string answer, exchange_->call(encode(request), deadline));
  WB_ASSIGN_OR_RETURN(const MapGrant grant, decode_map_grant(answer));
  WB_ASSIGN_OR_RETURN(const RegionFds fds, fetch_fds(grant, peer_.pid, deadline));
  WB_ASSIGN_OR_RETURN(region.data, Mapping::map(fds.region, region.key.bytes));
  if (stamps_ == nullptr) {
    WB_ASSIGN_OR_RETURN(stamps_, Mapping::map(fds.stamps, kStampTableBytes));
  }
  region.stamps = stamps_;
  const auto* head = reinterpret_cast<const uint64_t*>(stamps_->data());
  if (head[0] != peer_.incarnation.low || head[1] != peer_.incarnation.high) {
    return Status(Code::kMismatch, "the source handed over memory of another incarnation");
  }
  return Status();
}

Status LocalConnection::ask_for_ptrace(Deadline deadline) {
  const Request request{Ask::kPtrace, static_cast<uint32_t>(getpid()), 0, 0};
  WB_ASSIGN_OR_RETURN(const std::string answer, exchange_->call(encode(request), deadline));
  WB_ASSIGN_OR_RETURN(const PtraceGrant grant, decode_ptrace_grant(answer));
  reader_.set_grant(grant);
  return Status();
}

// A first read now, so that what the kernel forbids is known before the first pull: the source's
// incarnation, the region's stamp, and the region's first and last byte.
Status LocalConnection::import_by_process(RemoteRegionRecord& region, Deadline deadline) {
  if (!asked_for_ptrace_) {
    WB_RETURN_IF_ERROR(ask_for_ptrace(deadline));
    asked_for_ptrace_ = true;
  }
  Digest incarnation;
  uint64_t stamp = 0;
  std::byte first{};
  std::byte last{};
  batch_->clear();
  batch_->add(peer_.stamp_table, reinterpret_cast<std::byte*>(&incarnation.low), sizeof(uint64_t));
  batch_->add(peer_.stamp_table + sizeof(uint64_t), reinterpret_cast<std::byte*>(&incarnation.high),
              sizeof(uint64_t));
  batch_->add(peer_.stamp_table + stamp_offset(region.key.slot),
              reinterpret_cast<std::byte*>(&stamp), sizeof stamp);
  batch_->add(region.key.address, &first, 1);
  batch_->add(region.key.address + (region.key.bytes - 1), &last, 1);
  WB_ASSIGN_OR_RETURN(const uint64_t got, reader_.read(*batch_));
  if (got != batch_->bytes()) {
    return Status(Code::kPeerLost, "the source no longer has the memory that it exported");
  }
  if (incarnation != peer_.incarnation) {
    return Status(Code::kPeerLost, "the source's process runs another program by now");
  }
  if (stamp != region.key.stamp) {
    return Status(Code::kNotFound, "the source has no region by that key any more");
  }
  return Status();
}

Result<std::unique_ptr<ReadJob>> LocalConnection::prepare(const ReadList& list,
                                                          std::span<const RemoteRegion> remote,
                                                          std::span<const RegionId> local) {
  std::vector<std::shared_ptr<const RemoteRegionRecord>> remote_records;
  std::vector<std::shared_ptr<const LocalRegionRecord>> local_records;
  std::vector<uint64_t> remote_bytes;
  std::vector<uint64_t> local_bytes;
  for (const RemoteRegion region : remote) {
    if (region >= regions_.size()) {
      return Status(Code::kInvalidArgument,
                    "remote region " + std::to_string(region) + " was not imported here");
    }
    remote_records.push_back(regions_[region]);
    remote_bytes.push_back(regions_[region]->key.bytes);
  }
  for (const RegionId region : local) {
    WB_ASSIGN_OR_RETURN(auto record, domain_->find(region));
    if (record->access != Access::kLocalTarget) {
      return Status(Code::kInvalidArgument,
                    "region " + std::to_string(region) + " is not registered as a local target");
    }
    local_bytes.push_back(record->memory->bytes());
    local_records.push_back(std::move(record));
  }
  WB_RETURN_IF_ERROR(check_list(list, remote_bytes, local_bytes).status());

  std::vector<Piece> pieces;
  pieces.reserve(list.runs.size());
  for (const Run& run : list.runs) {
    if (run.count == 0 || run.length == 0) continue;
    pieces.push_back(
        resolve(run, *remote_records[run.remote_region], *local_records[run.local_region]));
  }
  return std::unique_ptr<ReadJob>(std::make_unique<LocalJob>(
      this, std::move(pieces), std::move(remote_records), std::move(local_records)));
}

Result<LocalJob*> LocalConnection::own(ReadJob& job) const {
  auto* local = dynamic_cast<LocalJob*>(&job);
  if (local != nullptr && local->owner() == this) return local;
  return Status(Code::kInvalidArgument, "the read job was prepared by another connection");
}

Status LocalConnection::warm(ReadJob& job, Deadline deadline) {
  WB_ASSIGN_OR_RETURN(const LocalJob* const own_job, own(job));
  Status warmed = own_job->populate(deadline);
  return warmed.ok() ? warmed : std::move(warmed).with_peer(facts_of_peer());
}

Status LocalConnection::post(ReadJob& job) {
  WB_ASSIGN_OR_RETURN(LocalJob* const own_job, own(job));
  return own_job->start();
}

JobState LocalConnection::poll(ReadJob& job) {
  const auto own_job = own(job);
  if (!own_job.ok()) return job.state();
  return (*own_job)->advance(domain_->options.poll_bytes, reader_, *batch_);
}

Status LocalConnection::abort(ReadJob& job, Deadline) {
  WB_ASSIGN_OR_RETURN(LocalJob* const own_job, own(job));
  // Bytes move inside poll() only: a job that is not polled writes nothing.
  if (own_job->state() == JobState::kActive) {
    own_job->fail(Status(Code::kCancelled, "the read job was aborted"));
  }
  return Status();
}

Status LocalConnection::read_words(RemoteRegion region, uint64_t offset, std::span<uint64_t> words,
                                   Deadline deadline) {
  if (region >= regions_.size()) {
    return Status(Code::kInvalidArgument,
                  "remote region " + std::to_string(region) + " was not imported here");
  }
  const RemoteRegionRecord& record = *regions_[region];
  if (words.size() > record.key.bytes / sizeof(uint64_t) ||
      !range_inside(offset, words.size_bytes(), record.key.bytes) ||
      (record.key.address + offset) % sizeof(uint64_t) != 0) {
    return Status(Code::kInvalidArgument,
                  "reading words outside the remote region, or not at a multiple of 8");
  }
  if (words.empty()) return Status();
  Status read = record.mapped() ? read_words_mapped(record, offset, words)
                                : read_words_by_process(record, offset, words, deadline);
  if (read.ok()) read = check_stamps({&regions_[region], 1}, reader_, *batch_);
  return read.ok() ? read : std::move(read).with_peer(facts_of_peer());
}

// Data is copied with plain loads, words are loaded with relaxed atomics, so two fences order them:
// the first keeps the loads of every earlier copy before the loads of the words, the second keeps
// the loads of every later copy behind them. Each pairs with a release fence of the writer: if a
// copy saw a byte that was stored after the epoch went odd, the words read after it show that.
Status LocalConnection::read_words_mapped(const RemoteRegionRecord& region, uint64_t offset,
                                          std::span<uint64_t> words) const {
  const auto* from = reinterpret_cast<const uint64_t*>(region.data->data() + offset);
  std::atomic_thread_fence(std::memory_order_acquire);
  for (size_t i = 0; i < words.size(); ++i) words[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
  std::atomic_thread_fence(std::memory_order_acquire);
  return Status();
}

// The kernel copies bytes, and nothing promises that eight of them are copied at once. Two copies
// in one call, one after the other, that agree are taken for a whole: a word is stored by one
// instruction, so what the second copy sees is at least as new in every byte as the newest byte of
// the first, and for a counter both agree only on a value that was stored. System calls do not pass
// each other, and the kernel's copies are ordered with the stores around them by its page-table
// locks and by program order, so no fence is needed beyond the compiler's.
Status LocalConnection::read_words_by_process(const RemoteRegionRecord& region, uint64_t offset,
                                              std::span<uint64_t> words, Deadline deadline) {
  if (second_look_.size() < words.size()) second_look_.resize(words.size());
  const std::span<uint64_t> again(second_look_.data(), words.size());
  while (true) {
    batch_->clear();
    const uint64_t from = region.key.address + offset;
    batch_->add(from, reinterpret_cast<std::byte*>(words.data()), words.size_bytes());
    batch_->add(from, reinterpret_cast<std::byte*>(again.data()), again.size_bytes());
    std::atomic_thread_fence(std::memory_order_acquire);
    WB_ASSIGN_OR_RETURN(const uint64_t got, reader_.read(*batch_));
    std::atomic_thread_fence(std::memory_order_acquire);
    if (got != batch_->bytes()) {
      return Status(Code::kPeerLost, "the source no longer has the memory that it exported");
    }
    if (std::equal(words.begin(), words.end(), again.begin())) return Status();
    if (deadline.expired()) {
      return Status(Code::kDeadline, "the words changed during every read until the deadline");
    }
  }
}

Status LocalConnection::alive() {
  Status running = still_running(pidfd_, peer_.pid);
  return running.ok() ? running : std::move(running).with_peer(facts_of_peer());
}

std::string LocalConnection::mechanism() const {
  const auto mapped = static_cast<size_t>(
      std::count_if(regions_.begin(), regions_.end(), [](const auto& r) { return r->mapped(); }));
  const size_t by_process = regions_.size() - mapped;
  std::string read = "process_vm_readv";
  const auto yama = static_cast<YamaGrant>(reader_.grant().granted);
  if (yama == YamaGrant::kThisReader) read += " (PR_SET_PTRACER for this reader)";
  if (yama == YamaGrant::kAnyOfThisUser) read += " (PR_SET_PTRACER for this user)";
  if (by_process == 0) return mapped == 0 ? "no region imported" : "mapped memfd";
  if (mapped == 0) return read;
  return "mapped memfd for " + std::to_string(mapped) + " region(s), " + read + " for " +
         std::to_string(by_process);
}

}  // namespace wb::local
