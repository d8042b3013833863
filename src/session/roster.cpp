#include "session/roster.h"

#include <algorithm>
#include <chrono>

#include "session/manifest_call.h"

namespace wb {
namespace {

// One member that hangs must not use up the time for the others.
constexpr std::chrono::seconds kManifestCall{5};

bool final_answer(Code code) {
  return code == Code::kMismatch || code == Code::kUnauthenticated || code == Code::kUnsupported;
}

// What the session's own arithmetic relies on, beyond what decode_manifest checks.
Status check_identity(const WorkerRecord& record, const Manifest& manifest) {
  if (manifest.incarnation == record.incarnation && manifest.rank == record.rank) return Status();
  return Status(Code::kBadData, "its manifest is of rank " + std::to_string(manifest.rank) +
                                    ", incarnation " + manifest.incarnation.hex() +
                                    "; the store names rank " + std::to_string(record.rank) +
                                    ", incarnation " + record.incarnation.hex());
}

}  // namespace

Result<std::shared_ptr<const Manifest>> Roster::manifest_of(const WorkerRecord& record,
                                                            const TensorTable& table,
                                                            Deadline deadline) {
  if (const auto it = cache_.find(record.manifest); it != cache_.end()) return it->second;
  WB_ASSIGN_OR_RETURN(Manifest manifest,
                      fetch_manifest(record, token_, table, deadline.capped(kManifestCall)));
  WB_RETURN_IF_ERROR(check_identity(record, manifest));
  return std::shared_ptr<const Manifest>(std::make_shared<Manifest>(std::move(manifest)));
}

Result<RosterResult> Roster::look_up(const Formation& formation, const TensorTable& table,
                                     Deadline deadline) {
  WB_ASSIGN_OR_RETURN(const auto records, read_workers(*store_, source_prefix(job_), deadline));
  RosterResult out;
  std::map<Digest, std::shared_ptr<const Manifest>> used;
  for (uint32_t rank = 0; rank < formation.members.size(); ++rank) {
    const Digest& incarnation = formation.members[rank];
    const std::string name = "trainer-" + std::to_string(rank);
    const auto it = std::find_if(records.begin(), records.end(), [&](const WorkerRecord& record) {
      return record.rank == rank && record.incarnation == incarnation;
    });
    if (it == records.end()) {
      out.missing.push_back({rank, incarnation,
                             Status(Code::kPeerLost, name + " has no record in the store: it died "
                                                            "or was closed")
                                 .with_peer(name)});
      continue;
    }
    auto manifest = manifest_of(*it, table, deadline);
    if (manifest.ok()) {
      used[it->manifest] = *manifest;
      out.peers.push_back({*it, std::move(manifest).value()});
      continue;
    }
    Status why = manifest.status().prefixed(name + ": ").with_peer(it->worker);
    if (final_answer(why.code())) return why;
    out.missing.push_back({rank, incarnation, std::move(why)});
  }
  cache_ = std::move(used);
  return out;
}

}  // namespace wb
