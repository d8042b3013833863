#include "session/receiver_roster.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "session/exchange.h"
#include "session/manifest_call.h"

namespace wb {
namespace {

constexpr int64_t kLeaseSeconds = 5;
// Balance is not worth a longer wait: a pull goes on without those that are slower.
constexpr std::chrono::milliseconds kLookUp{2000};
constexpr std::chrono::milliseconds kManifestCall{1000};
constexpr std::chrono::seconds kAskAgain{30};
constexpr std::chrono::seconds kAskStoreAgain{5};
constexpr std::chrono::seconds kAskSoon{1};

// The same bytes for receivers with the same layout and placement, so that they are fetched once.
std::string anonymous_manifest(const TensorTable& table, const WorkerLayout& layout,
                               const BoundMemory& memory) {
  Manifest manifest;
  manifest.worker = "receiver";
  manifest.table_digest = table.digest();
  manifest.mapping_digest = layout_digest(table, layout);
  manifest.layout = layout;
  manifest.placement = memory.placement;
  manifest.region_bytes = memory.region_bytes;
  return encode_manifest(manifest);
}

}  // namespace

ReceiverRoster::ReceiverRoster(const JobInternal& job, std::string name)
    : store_(job.store()),
      job_(job.options().name),
      token_(job.options().token),
      log_(job.options().log),
      name_(std::move(name)) {}

ReceiverRoster::~ReceiverRoster() = default;

Result<std::unique_ptr<ReceiverRoster>> ReceiverRoster::enlist(
    const JobInternal& job, const TensorTable& table, const WorkerLayout& layout,
    const BoundMemory& memory, const std::string& name, uint32_t index, Deadline deadline) {
  std::unique_ptr<ReceiverRoster> roster(new ReceiverRoster(job, name));
  roster->manifest_ = anonymous_manifest(table, layout, memory);
  PeerServerOptions server;
  server.host = job.options().host;
  server.token = roster->token_;
  server.topics[std::string(kManifestTopic)] =
      [bytes = &roster->manifest_](std::string_view) -> Result<std::string> { return *bytes; };
  WB_ASSIGN_OR_RETURN(roster->server_, PeerServer::listen(std::move(server)));

  WorkerRecord record;
  record.worker = name;
  record.rank = index;
  record.incarnation = roster->incarnation_;
  record.endpoint = roster->server_->address();
  record.manifest = digest_of(std::as_bytes(std::span(roster->manifest_)));
  // The key names the incarnation: one that died does not stand in its successor's way.
  const std::string key = receiver_prefix(roster->job_) + roster->incarnation_.hex();
  WB_ASSIGN_OR_RETURN(roster->registration_,
                      Registration::start(roster->store_, key, record, kLeaseSeconds, deadline));
  return roster;
}

Result<std::shared_ptr<const Manifest>> ReceiverRoster::manifest_of(const WorkerRecord& record,
                                                                    const TensorTable& table,
                                                                    Deadline deadline) {
  if (const auto it = cache_.find(record.manifest); it != cache_.end()) return it->second;
  WB_ASSIGN_OR_RETURN(Manifest manifest,
                      fetch_manifest(record, token_, table, deadline.capped(kManifestCall)));
  WB_RETURN_IF_ERROR(check_layout(table, manifest.layout, LayoutRole::kReceiver));
  return std::shared_ptr<const Manifest>(std::make_shared<Manifest>(std::move(manifest)));
}

bool ReceiverRoster::stale(uint64_t serial) const {
  return serial_ != serial || std::any_of(silent_.begin(), silent_.end(), [](const auto& silent) {
           return silent.second.expired();
         });
}

void ReceiverRoster::look_up(uint64_t serial, const TensorTable& table, Deadline deadline) {
  const Deadline soon = deadline.capped(kLookUp);
  const auto left_out = [&](const std::string& who, const Status& why) {
    log_.write(LogLevel::kWarn, "session", "a receiver's plan does not know of another receiver",
               {{"receiver", name_}, {"other", who}, {"reason", why.to_string()}});
  };
  auto records = read_workers(*store_, receiver_prefix(job_), soon);
  serial_ = serial;
  if (!records.ok()) {  // those that were there are the best guess
    left_out("all that came lately", records.status());
    silent_.insert_or_assign(Digest{}, Deadline::after(kAskStoreAgain));
    return;
  }
  // Of one name, a worker that was started again and its predecessor until its lease ends, or two
  // that were given the same by mistake: every reader of the records keeps the one that came last.
  std::map<std::string, WorkerRecord> by_name;
  for (WorkerRecord& record : *records) {
    if (record.worker == name_) continue;
    auto& kept = by_name[record.worker];
    if (kept.worker.empty() || kept.created < record.created) kept = std::move(record);
  }
  fellows_.clear();
  std::map<Digest, std::shared_ptr<const Manifest>> used;
  std::map<Digest, Deadline> silent;
  for (const auto& [name, record] : by_name) {
    if (const auto it = silent_.find(record.incarnation);
        it != silent_.end() && !it->second.expired()) {
      silent.insert(*it);
      continue;
    }
    const bool asked = !soon.expired();  // else those before it have used up the time
    auto manifest = manifest_of(record, table, soon);
    if (!manifest.ok()) {
      left_out(name, manifest.status());
      silent.emplace(record.incarnation, Deadline::after(asked ? kAskAgain : kAskSoon));
      continue;
    }
    used[record.manifest] = *manifest;
    cache_[record.manifest] = *manifest;
    fellows_.push_back({name, record.manifest, std::move(manifest).value()});
  }
  cache_ = std::move(used);
  silent_ = std::move(silent);
}

Status ReceiverRoster::close(Deadline deadline) {
  Status first;
  if (registration_ != nullptr) first = registration_->close(withdraw_by(deadline));
  if (server_ != nullptr) {
    Status closed = server_->close(deadline);
    if (first.ok()) first = std::move(closed);
  }
  return first;
}

}  // namespace wb
