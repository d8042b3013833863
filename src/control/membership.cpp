#include "control/membership.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <thread>

#include "control/wire.h"
#include "control/worker_record.h"

namespace wb {
namespace {

using std::chrono::milliseconds;
using wire::Json;

constexpr int64_t kRecordVersion = 1;
constexpr uint32_t kMaxWorld = 1u << 16;
// Longer than the lease of a worker that died just before: it must not look alive.
constexpr std::chrono::seconds kLeasesEnd{12};
constexpr milliseconds kLookAgain{200};

// Callers that lost a race together would meet again: each waits a random while.
void pause(unsigned round, Deadline deadline) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const unsigned limit = 1u << std::min(round, 6u);
  const auto span = milliseconds(1 + random() % limit);
  std::this_thread::sleep_for(std::min<Deadline::Clock::duration>(span, deadline.remaining()));
}

Status bad_record(const std::string& key, const std::string& why) {
  return Status(Code::kBadData, "the record " + key + " in the store is malformed: " + why);
}

Result<Json> parse_record(const KeyValue& item) {
  auto json = wire::parse_object(item.value);
  if (!json.ok()) return bad_record(item.key, json.status().message());
  const auto version = wire::get_int(*json, "version");
  if (!version.ok() || *version != kRecordVersion) {
    return bad_record(item.key, "another version of its format");
  }
  return json;
}

Result<Digest> get_digest(const Json& record, const char* field, const std::string& key) {
  WB_ASSIGN_OR_RETURN(const std::string text, wire::get_text(record, field));
  auto digest = Digest::from_hex(text);
  if (!digest.ok()) return bad_record(key, std::string(field) + " is not a digest");
  return digest;
}

std::string format_formation(const Formation& formation) {
  Json members = Json::array();
  for (const Digest& member : formation.members) {
    members.push_back(member == Digest{} ? std::string() : member.hex());
  }
  return Json{{"version", kRecordVersion},
              {"generation", formation.generation},
              {"members", std::move(members)}}
      .dump();
}

Result<Formation> parse_formation(const KeyValue& item) {
  WB_ASSIGN_OR_RETURN(const Json record, parse_record(item));
  const auto generation = wire::get_int(record, "generation");
  const auto members = wire::get_array(record, "members");
  if (!generation.ok() || *generation <= 0) return bad_record(item.key, "no generation");
  if (!members.ok() || *members == nullptr || (*members)->empty() ||
      (*members)->size() > kMaxWorld) {
    return bad_record(item.key, "no members");
  }
  Formation formation;
  formation.generation = static_cast<uint64_t>(*generation);
  formation.revision = item.mod_revision;
  for (const Json& member : **members) {
    if (!member.is_string()) return bad_record(item.key, "a member is not a string");
    const auto& text = member.get_ref<const std::string&>();
    const auto digest = text.empty() ? Result<Digest>(Digest{}) : Digest::from_hex(text);
    if (!digest.ok()) return bad_record(item.key, "a member is not an incarnation");
    formation.members.push_back(*digest);
  }
  return formation;
}

Status check_caller(const std::string& job, uint32_t rank, uint32_t world,
                    const Digest& incarnation) {
  WB_RETURN_IF_ERROR(check_job_name(job));
  if (world == 0 || world > kMaxWorld || rank >= world) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(rank) + " of a world of " +
                                              std::to_string(world) + " does not exist");
  }
  if (incarnation == Digest{}) return Status(Code::kInvalidArgument, "a zero incarnation");
  return Status();
}

bool holds(const Formation& formation, uint32_t rank, uint32_t world, const Digest& incarnation) {
  return formation.members.size() == world && formation.members[rank] == incarnation;
}

// The record after the caller has joined: its free rank taken, or a new generation opened.
Formation joined(const Formation* now, uint32_t rank, uint32_t world, const Digest& incarnation) {
  Formation next;
  if (now != nullptr && now->members.size() == world && now->members[rank] == Digest{}) {
    next = *now;
  } else {
    next.generation = now == nullptr ? 1 : now->generation + 1;
    next.members.resize(world);
  }
  next.members[rank] = incarnation;
  return next;
}

// A set of another size is a restart of the job once the old workers are gone, and a mistake while
// they live. Names one that lives.
Result<std::optional<std::string>> living_member(StoreClient& store, const std::string& job,
                                                 const Formation& formation, Deadline deadline) {
  WB_ASSIGN_OR_RETURN(const auto workers, read_workers(store, source_prefix(job), deadline));
  for (const WorkerRecord& worker : workers) {
    const auto& members = formation.members;
    if (std::find(members.begin(), members.end(), worker.incarnation) != members.end()) {
      return std::optional<std::string>(worker.worker);
    }
  }
  return std::optional<std::string>();
}

std::string missing_ranks(const Formation& formation) {
  constexpr size_t kShown = 8;
  std::string text;
  size_t count = 0;
  for (size_t rank = 0; rank < formation.members.size(); ++rank) {
    if (formation.members[rank] != Digest{}) continue;
    if (++count <= kShown) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (count > kShown) text += " and " + std::to_string(count - kShown) + " more";
  return "generation " + std::to_string(formation.generation) + " waits for " +
         std::to_string(count) + " of " + std::to_string(formation.members.size()) +
         " ranks: " + text;
}

Status left_out(const std::string& job, uint32_t rank, const Formation* now) {
  return Status(Code::kGenerationChanged,
                "job " + job +
                    ": the trainer ranks were formed anew without this process as rank " +
                    std::to_string(rank) +
                    (now == nullptr ? std::string(" (the record is gone)")
                                    : " (generation " + std::to_string(now->generation) + ")"));
}

}  // namespace

bool Formation::complete() const {
  return !members.empty() && std::none_of(members.begin(), members.end(),
                                          [](const Digest& member) { return member == Digest{}; });
}

std::string formation_key(const std::string& job) { return job_prefix(job) + "formation"; }
std::string job_prefix(const std::string& job) { return "/weightbridge/" + job + "/"; }
std::string source_prefix(const std::string& job) { return job_prefix(job) + "source/"; }
std::string receiver_prefix(const std::string& job) { return job_prefix(job) + "receiver/"; }

Status check_job_name(const std::string& job) {
  constexpr std::string_view kWords =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (!job.empty() && job.size() <= 128 && job.find_first_not_of(kWords) == std::string::npos) {
    return Status();
  }
  return Status(Code::kInvalidArgument, "a job name is 1 to 128 of A-Z a-z 0-9 . _ -");
}

Result<Formation> read_formation(StoreClient& store, const std::string& job, Deadline deadline) {
  WB_RETURN_IF_ERROR(check_job_name(job));
  WB_ASSIGN_OR_RETURN(const auto item, store.get(formation_key(job), deadline));
  if (!item) return Status(Code::kNotFound, "job " + job + ": no trainer has joined yet");
  return parse_formation(*item);
}

Result<Formation> join_formation(StoreClient& store, const std::string& job, uint32_t rank,
                                 uint32_t world, const Digest& incarnation, Deadline deadline) {
  WB_RETURN_IF_ERROR(check_caller(job, rank, world, incarnation));
  const std::string key = formation_key(job);
  const Deadline leases_end = deadline.capped(kLeasesEnd);
  for (unsigned round = 0;; ++round) {
    const auto now = read_formation(store, job, deadline);
    const bool absent = now.status().code() == Code::kNotFound;
    if (!now.ok() && !absent) return now.status();
    if (!absent && holds(*now, rank, world, incarnation)) return now;
    if (!absent && now->members.size() != world) {
      WB_ASSIGN_OR_RETURN(const auto living, living_member(store, job, *now, deadline));
      if (living.has_value()) {
        if (leases_end.remaining() <= 2 * kLookAgain) {
          return Status(Code::kMismatch, "job " + job + " runs with " +
                                             std::to_string(now->members.size()) +
                                             " trainer ranks (" + *living + " is alive): rank " +
                                             std::to_string(rank) + " of " + std::to_string(world) +
                                             " does not belong to it")
              .with_peer(*living);
        }
        std::this_thread::sleep_until(leases_end.capped(kLookAgain).when());
        continue;
      }
    }

    Formation next = joined(absent ? nullptr : &*now, rank, world, incarnation);
    const auto result = store.txn({{key, absent ? 0 : now->revision}},
                                  {{TxnOp::Kind::kPut, key, format_formation(next), 0}}, deadline);
    if (result.ok() && result->succeeded) {
      next.revision = result->revision;
      return next;
    }
    // An answer that was lost on its way may have been a yes: the record tells.
    if (!result.ok() && result.status().code() != Code::kUnavailable) return result.status();
    if (deadline.expired()) {
      return Status(Code::kDeadline, "job " + job + ": joining lost every race until the deadline");
    }
    pause(round, deadline);
  }
}

Status leave_formation(StoreClient& store, const std::string& job, uint32_t rank, uint32_t world,
                       const Digest& incarnation, Deadline deadline) {
  WB_RETURN_IF_ERROR(check_caller(job, rank, world, incarnation));
  const std::string key = formation_key(job);
  for (unsigned round = 0;; ++round) {
    auto now = read_formation(store, job, deadline);
    if (now.status().code() == Code::kNotFound) return Status();
    if (!now.ok()) return now.status();
    if (!holds(*now, rank, world, incarnation)) return Status();
    now->members[rank] = Digest{};
    const auto result = store.txn({{key, now->revision}},
                                  {{TxnOp::Kind::kPut, key, format_formation(*now), 0}}, deadline);
    if (!result.ok()) return result.status();
    if (result->succeeded) return Status();
    pause(round, deadline);
  }
}

Result<Formation> wait_formation(StoreClient& store, const std::string& job, uint32_t rank,
                                 uint32_t world, const Digest& incarnation, bool rejoin,
                                 Deadline deadline) {
  WB_RETURN_IF_ERROR(check_caller(job, rank, world, incarnation));
  std::string state = "no record was read";
  const auto with_state = [&](const Status& status) {
    if (status.code() != Code::kDeadline) return status;
    return Status(Code::kDeadline, "job " + job + ": " + state);
  };
  for (unsigned round = 0;; ++round) {
    auto now = read_formation(store, job, deadline);
    const bool absent = now.status().code() == Code::kNotFound;
    if (!now.ok() && !absent) return with_state(now.status());
    if (absent || !holds(*now, rank, world, incarnation)) {
      if (!rejoin) return left_out(job, rank, absent ? nullptr : &*now);
      now = join_formation(store, job, rank, world, incarnation, deadline);
      if (!now.ok()) return with_state(now.status());
    }
    if (now->complete()) return now;
    state = missing_ranks(*now);

    const auto watch = store.watch(formation_key(job), now->revision + 1, deadline);
    const auto news = watch.ok() ? (*watch)->next(deadline).status() : watch.status();
    if (deadline.expired()) return with_state(Status(Code::kDeadline, "the deadline passed"));
    // A watch that ended early is no verdict: the record is read again, after a pause so that a
    // store which ends watches at once is not asked in a tight loop.
    if (!news.ok()) pause(std::max(round, 4u), deadline);
  }
}

std::string format_worker(const WorkerRecord& record) {
  return Json{{"version", kRecordVersion},   {"worker", record.worker},
              {"rank", record.rank},         {"incarnation", record.incarnation.hex()},
              {"endpoint", record.endpoint}, {"manifest", record.manifest.hex()}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<WorkerRecord> parse_worker(const KeyValue& item) {
  WB_ASSIGN_OR_RETURN(const Json json, parse_record(item));
  WorkerRecord record;
  const auto rank = wire::get_int(json, "rank");
  const auto worker = wire::get_text(json, "worker");
  const auto endpoint = wire::get_text(json, "endpoint");
  if (!rank.ok() || *rank < 0 || *rank >= kMaxWorld) return bad_record(item.key, "no such rank");
  if (!worker.ok() || worker->empty()) return bad_record(item.key, "no name");
  if (!endpoint.ok() || endpoint->empty()) return bad_record(item.key, "no endpoint");
  record.rank = static_cast<uint32_t>(*rank);
  record.worker = *worker;
  record.endpoint = *endpoint;
  WB_ASSIGN_OR_RETURN(record.incarnation, get_digest(json, "incarnation", item.key));
  WB_ASSIGN_OR_RETURN(record.manifest, get_digest(json, "manifest", item.key));
  return record;
}

Result<std::vector<WorkerRecord>> read_workers(StoreClient& store, const std::string& prefix,
                                               Deadline deadline) {
  WB_ASSIGN_OR_RETURN(const RangeResult range, store.range(prefix, deadline));
  std::vector<WorkerRecord> records;
  for (const KeyValue& item : range.items) {
    // A record that does not parse (of a newer format, or none of ours) says nothing about the
    // other workers and must not end every pull. Its own worker is then missing: a caller that
    // needs it names the member of the formation that has no record.
    auto record = parse_worker(item);
    if (!record.ok()) continue;
    record->created = item.create_revision;
    records.push_back(std::move(*record));
  }
  return records;
}

}  // namespace wb
