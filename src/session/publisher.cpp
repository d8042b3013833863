#include "session/publisher.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/cancel.h"
#include "base/gate.h"
#include "control/manifest.h"
#include "control/membership.h"
#include "control/peer.h"
#include "session/bound_memory.h"
#include "session/exchange.h"
#include "session/formation_watch.h"
#include "session/header.h"
#include "session/job_internal.h"
#include "session/progress_thread.h"
#include "session/report.h"
#include "session/snapshot.h"

namespace wb {
namespace {

using std::chrono::milliseconds;
using Clock = Deadline::Clock;

constexpr uint32_t kMaxWorld = 1u << 20;
constexpr uint32_t kMaxSlots = 64;
// A dead trainer's record disappears after this; readers on the same host know sooner.
constexpr int64_t kLeaseSeconds = 5;
constexpr std::chrono::seconds kDestructorWait{5};
// Slice of a wait for other ranks, so that close() can end it.
constexpr milliseconds kWaitSlice{200};
constexpr milliseconds kLeaveWait{250};
// After a create() that failed: its deadline may be over, and the lease ends by itself.
constexpr milliseconds kGiveUpWait{200};

uint64_t ns_since(Clock::time_point begun) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begun).count());
}

Status check_stream(void* stream) {
  if (stream == nullptr) return Status();
  return Status(Code::kUnsupported, "this build has no CUDA: a stream cannot be waited for");
}

Status check_options(const PublisherOptions& options) {
  if (options.world == 0 || options.world > kMaxWorld || options.rank >= options.world) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(options.rank) + " of world " +
                                              std::to_string(options.world) + " does not exist");
  }
  if (options.mode != PublishMode::kInPlace && options.mode != PublishMode::kSnapshot) {
    return Status(Code::kInvalidArgument, "the mode is neither in-place nor snapshot");
  }
  if (options.mode == PublishMode::kSnapshot && (options.slots < 2 || options.slots > kMaxSlots)) {
    return Status(Code::kInvalidArgument, "a snapshot publisher has 2 to " +
                                              std::to_string(kMaxSlots) + " slots, not " +
                                              std::to_string(options.slots));
  }
  return Status();
}

struct Serving {
  TransportKind kind;
  bool helped;  // by a progress thread
};

class PublisherImpl final : public Publisher {
 public:
  PublisherImpl(std::shared_ptr<JobInternal> job, TensorTable table, WorkerLayout layout,
                BoundMemory live, const PublisherOptions& options)
      : job_(std::move(job)),
        log_(job_->options().log),
        table_(std::move(table)),
        layout_(std::move(layout)),
        live_(std::move(live)),
        options_(options),
        name_("trainer-" + std::to_string(options.rank)),
        incarnation_(random_id()),
        mapping_(layout_digest(table_, layout_)),
        gate_(name_) {}

  ~PublisherImpl() override {
    const Status status = close(Deadline::after(destructor_wait_));
    if (!status.ok()) {
      log_.write(LogLevel::kError, "session", "closing a publisher failed",
                 {{"worker", name_}, {"error", status.to_string()}});
    }
  }

  Status start(Deadline deadline) {
    destructor_wait_ = kGiveUpWait;
    WB_RETURN_IF_ERROR(set_up(deadline));
    destructor_wait_ = kDestructorWait;
    return Status();
  }

  Status set_up(Deadline deadline) {
    WB_RETURN_IF_ERROR(allocate());
    WB_RETURN_IF_ERROR(register_memory());
    WB_RETURN_IF_ERROR(serve());
    WB_RETURN_IF_ERROR(enlist(deadline));
    WB_ASSIGN_OR_RETURN(watch_, FormationWatch::start(job_->store(), job_->options().name, log_));
    WB_RETURN_IF_ERROR(join(deadline));
    log_.write(LogLevel::kInfo, "session", "publisher started",
               {{"worker", name_}, {"report", report()}});
    return Status();
  }

  Status begin_update(void* stream) override {
    const auto begun = Clock::now();
    WB_ASSIGN_OR_RETURN(const Gate::Holder inside, gate_.enter());
    // The epoch first, whatever follows: a caller that changes its weights in spite of an error
    // still cannot tear a reader.
    if (!snapshot_.has_value()) headers_->begin_change(0);
    WB_RETURN_IF_ERROR(check_stream(stream));
    const Status current = check_generation();
    const std::lock_guard lock(stats_mutex_);
    stats_.last_begin_ns = ns_since(begun);
    return snapshot_.has_value() ? Status() : current;
  }

  Status publish(uint64_t number, void* stream) override {
    const auto begun = Clock::now();
    WB_ASSIGN_OR_RETURN(const Gate::Holder inside, gate_.enter());
    WB_RETURN_IF_ERROR(check_stream(stream));
    WB_RETURN_IF_ERROR(check_generation());
    if (last_number_.has_value() && number <= *last_number_) {
      return Status(Code::kFailedPrecondition,
                    "version " + std::to_string(number) + " does not follow version " +
                        std::to_string(*last_number_) + ": numbers grow within a generation");
    }
    const Version version{generation_, number};
    if (snapshot_.has_value()) {
      publish_snapshot(version);
    } else if (!headers_->changing(0)) {
      return Status(Code::kFailedPrecondition,
                    "publish without begin_update: readers could not tell version " +
                        std::to_string(number) + " from the one before");
    } else {
      headers_->end_change(0, version);
    }
    last_number_ = number;
    note_published(version, begun);
    return Status();
  }

  Status rejoin(Deadline deadline) override {
    WB_ASSIGN_OR_RETURN(const Gate::Holder inside, gate_.enter());
    const CancelScope scope(&cancelled_);
    for (uint32_t slot = 0; slot < headers_->slots(); ++slot) {
      headers_->begin_change(slot);
      if (snapshot_.has_value()) snapshot_->set_version(slot, std::nullopt);
    }
    return join(deadline);
  }

  PublisherStats stats() const override {
    const std::lock_guard lock(stats_mutex_);
    return stats_;
  }

  std::string report() const override;

  Status close(Deadline deadline) override {
    cancelled_ = true;
    const std::lock_guard lock(close_mutex_);
    if (closed_) return Status();
    WB_RETURN_IF_ERROR(gate_.close(deadline));
    if (headers_.has_value()) headers_->close();
    Status first;
    const auto keep_first = [&](Status status) {
      if (first.ok() && !status.ok()) first = std::move(status);
    };
    // A store that is gone forgets the record by its lease: no reason to keep the memory.
    if (registration_ != nullptr) keep_first(registration_->close(withdraw_by(deadline)));
    registration_.reset();
    // Handlers use what is torn down next; close() may be called again.
    if (server_ != nullptr) WB_RETURN_IF_ERROR(server_->close(deadline));
    watch_.reset();
    helpers_.clear();
    for (RegisteredRegions& registered : registered_) keep_first(registered.release());
    // Reads that wait in a domain of this publisher's own end here, unanswered.
    registered_.clear();
    domains_.clear();
    closed_ = true;
    return first;
  }

 private:
  Status allocate() {
    uint32_t slots = 1;
    if (options_.mode == PublishMode::kSnapshot) {
      slots = options_.slots;
      WB_ASSIGN_OR_RETURN(snapshot_, SnapshotSlots::create(layout_, slots, options_.huge_pages));
    }
    WB_ASSIGN_OR_RETURN(headers_, HeaderDirectory::create(slots, mapping_, incarnation_));
    return Status();
  }

  // The regions that readers see, in the manifest's order: of every slot, then the headers.
  std::vector<std::shared_ptr<Allocation>> served() const {
    auto memory = snapshot_.has_value() ? snapshot_->memory() : live_.regions;
    memory.push_back(headers_->memory());
    return memory;
  }

  Status register_memory() {
    const auto memory = served();
    Status last(Code::kUnsupported, "this job has no transport that can run here");
    for (size_t i = 0; i < job_->domains().size(); ++i) {
      const TransportKind kind = job_->domains()[i]->kind();
      const std::string name(transport_name(kind));
      Status status = register_with(i, memory);
      if (status.ok()) continue;
      last = std::move(status).prefixed("registering memory with " + name + ": ");
      unusable_.push_back({kind, last.to_string()});
      log_.write(LogLevel::kWarn, "session", "a transport cannot serve this worker's memory",
                 {{"worker", name_}, {"transport", name}, {"error", last.to_string()}});
    }
    return registered_.empty() ? last : Status();
  }

  Status register_with(size_t index, std::span<const std::shared_ptr<Allocation>> memory) {
    WB_ASSIGN_OR_RETURN(auto domain, job_->serving_domain(index));
    WB_ASSIGN_OR_RETURN(auto registered,
                        RegisteredRegions::make(domain.get(), memory, Access::kRemoteRead, log_));
    registered_.push_back(std::move(registered));
    WB_ASSIGN_OR_RETURN(auto helper, ProgressThread::start_if_needed(domain.get()));
    helpers_.push_back(std::move(helper));
    serving_.push_back({domain->kind(), helpers_.back() != nullptr});
    domains_.push_back(std::move(domain));
    return Status();
  }

  Result<std::string> make_manifest() const {
    Manifest manifest;
    manifest.worker = name_;
    manifest.rank = options_.rank;
    manifest.world = options_.world;
    manifest.incarnation = incarnation_;
    manifest.table_digest = table_.digest();
    manifest.mapping_digest = mapping_;
    manifest.slots = headers_->slots();
    manifest.in_place = !snapshot_.has_value();
    manifest.layout = layout_;
    if (snapshot_.has_value()) {
      manifest.placement = snapshot_->placement();
      manifest.region_bytes = {snapshot_->memory().front()->bytes()};
    } else {
      manifest.placement = live_.placement;
      manifest.region_bytes = live_.region_bytes;
    }
    for (const RegisteredRegions& registered : registered_) {
      ManifestTransport transport;
      transport.kind = static_cast<uint8_t>(registered.domain().kind());
      transport.address = registered.domain().address();
      for (const RegionId region : registered.ids()) {
        WB_ASSIGN_OR_RETURN(std::string key, registered.domain().export_key(region));
        transport.keys.push_back(std::move(key));
      }
      manifest.transports.push_back(std::move(transport));
    }
    return encode_manifest(manifest);
  }

  Status serve() {
    WB_ASSIGN_OR_RETURN(manifest_, make_manifest());
    PeerServerOptions server;
    server.host = job_->options().host;
    server.token = job_->options().token;
    server.topics[std::string(kManifestTopic)] = [this](std::string_view) -> Result<std::string> {
      return manifest_;
    };
    for (const RegisteredRegions& registered : registered_) {
      Domain* const domain = &registered.domain();
      server.topics[exchange_topic(domain->kind())] = [domain](std::string_view payload) {
        return domain->handle_exchange(payload);
      };
    }
    WB_ASSIGN_OR_RETURN(server_, PeerServer::listen(std::move(server)));
    return Status();
  }

  // The record is in the store before the rank is in the formation, so that whoever sees a complete
  // formation also sees its workers. The key names the incarnation: a late renewal by a zombie of
  // the same rank cannot hide its successor.
  Status enlist(Deadline deadline) {
    WorkerRecord record;
    record.worker = name_;
    record.rank = options_.rank;
    record.incarnation = incarnation_;
    record.endpoint = server_->address();
    record.manifest = digest_of(std::as_bytes(std::span(manifest_)));
    const std::string key = source_prefix(job_->options().name) + std::to_string(options_.rank) +
                            "/" + incarnation_.hex();
    WB_ASSIGN_OR_RETURN(registration_,
                        Registration::start(job_->store(), key, record, kLeaseSeconds, deadline));
    return Status();
  }

  Status join(Deadline deadline) {
    StoreClient& store = *job_->store();
    const std::string& job = job_->options().name;
    WB_ASSIGN_OR_RETURN(
        Formation formation,
        join_formation(store, job, options_.rank, options_.world, incarnation_, deadline));
    while (!formation.complete()) {
      auto waited = wait_formation(store, job, options_.rank, options_.world, incarnation_,
                                   /*rejoin=*/true, deadline.capped(kWaitSlice));
      if (waited.ok()) {
        formation = std::move(waited).value();
        break;
      }
      Status gave_up = waited.status();
      if (gave_up.code() == Code::kCancelled)
        gave_up = Status(Code::kCancelled, name_ + " was closed while it joined");
      if (gave_up.code() == Code::kDeadline && !deadline.expired()) {
        if (!gate_.closing()) continue;
        gave_up = Status(Code::kCancelled, name_ + " was closed while it joined");
      }
      return leave(std::move(gave_up));
    }
    watch_->offer(formation);
    if (!formation.same_set(formation_)) last_number_.reset();
    {
      const std::lock_guard lock(stats_mutex_);
      generation_ = formation.generation;
    }
    formation_ = std::move(formation);
    return check_generation();
  }

  // The caller's deadline is over: what follows has a short one of its own.
  Status leave(Status why) {
    const CancelScope never(nullptr);
    const Status left = leave_formation(*job_->store(), job_->options().name, options_.rank,
                                        options_.world, incarnation_, Deadline::after(kLeaveWait));
    if (left.ok()) return why;
    return std::move(why).prefixed("(and its rank could not be given back: " + left.message() +
                                   ") ");
  }

  // Microseconds, and without the network: the watch's thread asks the store.
  Status check_generation() {
    if (watch_->serial() == serial_) return Status();
    uint64_t serial = 0;
    const auto latest = watch_->latest(&serial);
    if (!latest.has_value() || latest->same_set(formation_)) {
      serial_ = serial;
      return Status();
    }
    return Status(Code::kGenerationChanged,
                  name_ + " belongs to generation " + std::to_string(generation_) +
                      ", but the trainer ranks have formed generation " +
                      std::to_string(latest->generation) + " without it: rejoin() to go on");
  }

  void publish_snapshot(const Version& version) {
    const uint32_t slot = snapshot_->next();
    headers_->begin_change(slot);
    snapshot_->fill(slot, layout_, live_);
    headers_->end_change(slot, version);
    snapshot_->set_version(slot, version);
  }

  void note_published(const Version& version, Clock::time_point begun) {
    const std::lock_guard lock(stats_mutex_);
    stats_.published += 1;
    stats_.version = version;
    stats_.last_publish_ns = ns_since(begun);
    stats_.max_publish_ns = std::max(stats_.max_publish_ns, stats_.last_publish_ns);
  }

  const std::shared_ptr<JobInternal> job_;
  const Log log_;
  const TensorTable table_;
  const WorkerLayout layout_;
  const BoundMemory live_;
  const PublisherOptions options_;
  const std::string name_;
  const Digest incarnation_;
  const Digest mapping_;

  std::optional<SnapshotSlots> snapshot_;  // nothing: in-place
  std::optional<HeaderDirectory> headers_;
  // Per usable transport, until close(). Each line refers to the one before.
  std::vector<std::shared_ptr<Domain>> domains_;
  std::vector<RegisteredRegions> registered_;
  std::vector<std::unique_ptr<ProgressThread>> helpers_;
  std::vector<Serving> serving_;  // likewise, for the report
  std::vector<MissingTransport> unusable_;
  std::string manifest_;
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<Registration> registration_;
  std::unique_ptr<FormationWatch> watch_;

  Gate gate_;                            // calls of the training loop
  std::atomic<bool> cancelled_ = false;  // by close(): ends the network calls of rejoin()
  milliseconds destructor_wait_ = kDestructorWait;
  Formation formation_;  // that this worker belongs to
  uint64_t serial_ = 0;  // of the watch, when formation_ was last confirmed
  std::optional<uint64_t> last_number_;

  mutable std::mutex stats_mutex_;
  uint64_t generation_ = 0;  // written under the mutex, by the training loop's thread only
  PublisherStats stats_;

  std::mutex close_mutex_;
  bool closed_ = false;
};

std::string PublisherImpl::report() const {
  nlohmann::json out = job_report(*job_);
  out["role"] = "publisher";
  out["worker"] = name_;
  out["rank"] = options_.rank;
  out["world"] = options_.world;
  {
    const std::lock_guard lock(stats_mutex_);
    out["generation"] = generation_;
  }
  out["incarnation"] = incarnation_.hex();
  out["table"] = table_.digest().hex();
  out["mapping"] = mapping_.hex();
  out["endpoint"] = server_ == nullptr ? "" : server_->address();
  out["manifest_bytes"] = manifest_.size();
  out["mode"] = snapshot_.has_value() ? "snapshot" : "in_place";
  out["slots"] = headers_.has_value() ? headers_->slots() : 0;
  out["memory"] = memory_report(snapshot_.has_value() ? snapshot_->memory() : live_.regions);
  out["huge_pages"] = snapshot_.has_value() && options_.huge_pages;
  nlohmann::json transports = nlohmann::json::array();
  for (const Serving& one : serving_) {
    transports.push_back({{"transport", transport_name(one.kind)},
                          {"serves", true},
                          {"source_progress_thread", one.helped}});
  }
  for (const MissingTransport& one : unusable_) {
    transports.push_back(
        {{"transport", transport_name(one.kind)}, {"serves", false}, {"reason", one.reason}});
  }
  out["transports"] = std::move(transports);
  return dump_report(out);
}

}  // namespace

Result<std::unique_ptr<Publisher>> Publisher::create(std::shared_ptr<Job> job, TensorTable table,
                                                     WorkerLayout layout,
                                                     std::vector<BoundBuffer> buffers,
                                                     const PublisherOptions& options,
                                                     Deadline deadline) {
  WB_ASSIGN_OR_RETURN(auto with_transports, internal(std::move(job)));
  WB_RETURN_IF_ERROR(check_options(options));
  WB_RETURN_IF_ERROR(check_layout(table, layout, LayoutRole::kSource));
  WB_ASSIGN_OR_RETURN(BoundMemory live, group_buffers(layout, buffers));
  auto publisher = std::make_unique<PublisherImpl>(std::move(with_transports), std::move(table),
                                                   std::move(layout), std::move(live), options);
  WB_RETURN_IF_ERROR(publisher->start(deadline));
  return std::unique_ptr<Publisher>(std::move(publisher));
}

}  // namespace wb
