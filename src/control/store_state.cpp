#include "control/store_state.h"

#include <algorithm>

#include "base/hash.h"

namespace wb {
namespace {

// What a key costs beside its bytes; keeps the limits true for many small ones.
constexpr size_t kItemOverhead = 128;

size_t cost(std::string_view key, std::string_view value) {
  return key.size() + value.size() + kItemOverhead;
}

size_t cost(const StoreEvent& event) { return cost(event.item.key, event.item.value.value); }

// At least what the API writes for a key: six names, four 64-bit numbers, the two texts in base64.
constexpr size_t kReplyItemOverhead = 192;
size_t reply_cost(std::string_view key, std::string_view value) {
  return (key.size() + 2) / 3 * 4 + (value.size() + 2) / 3 * 4 + kReplyItemOverhead;
}

const std::string kNoEnd(1, '\0');

Status reply_too_large() { return Status(Code::kNoMemory, "etcdserver: the answer is too large"); }

Status lease_not_found() {
  return Status(Code::kNotFound, "etcdserver: requested lease not found");
}

template <typename T>
bool related(StoreCompare::Relation relation, const T& a, const T& b) {
  switch (relation) {
    case StoreCompare::Relation::kEqual:
      return a == b;
    case StoreCompare::Relation::kGreater:
      return a > b;
    case StoreCompare::Relation::kLess:
      return a < b;
    case StoreCompare::Relation::kNotEqual:
      return a != b;
  }
  return false;
}

}  // namespace

bool StoreRange::contains(std::string_view key) const {
  if (end.empty()) return key == begin;
  return key >= begin && (end == kNoEnd || key < end);
}

std::pair<StoreState::Keys::const_iterator, StoreState::Keys::const_iterator> StoreState::bounds(
    const StoreRange& range) const {
  const auto first = keys_.lower_bound(range.begin);
  if (range.end.empty()) {
    const bool found = first != keys_.end() && first->first == range.begin;
    return {first, found ? std::next(first) : first};
  }
  if (range.end == kNoEnd) return {first, keys_.end()};
  if (range.end <= range.begin) return {first, first};
  return {first, keys_.lower_bound(range.end)};
}

Status StoreState::add_reply(const StoreRange& range, size_t limit, size_t* bytes) const {
  const auto [first, last] = bounds(range);
  size_t items = 0;
  for (auto at = first; at != last && (limit == 0 || items < limit); ++at, ++items) {
    *bytes += reply_cost(at->first, at->second.value);
    if (*bytes > limits_.reply_bytes) return reply_too_large();
  }
  return Status();
}

std::vector<StoreItem> StoreState::copy(const StoreRange& range, size_t limit) const {
  std::vector<StoreItem> items;
  const auto [first, last] = bounds(range);
  for (auto at = first; at != last && (limit == 0 || items.size() < limit); ++at) {
    items.push_back({at->first, at->second});
  }
  return items;
}

Result<std::vector<StoreItem>> StoreState::range(const StoreRange& range, size_t limit) const {
  size_t bytes = 0;
  WB_RETURN_IF_ERROR(add_reply(range, limit, &bytes));
  return copy(range, limit);
}

size_t StoreState::count(const StoreRange& range) const {
  const auto [first, last] = bounds(range);
  return static_cast<size_t>(std::distance(first, last));
}

bool StoreState::holds(const StoreCompare& compare) const {
  const auto at = keys_.find(compare.key);
  static const StoredValue kAbsent;
  const StoredValue& stored = at == keys_.end() ? kAbsent : at->second;
  switch (compare.target) {
    case StoreCompare::Target::kVersion:
      return related(compare.relation, stored.version, compare.number);
    case StoreCompare::Target::kCreate:
      return related(compare.relation, stored.create_revision, compare.number);
    case StoreCompare::Target::kMod:
      return related(compare.relation, stored.mod_revision, compare.number);
    case StoreCompare::Target::kLease:
      return related(compare.relation, stored.lease, compare.number);
    case StoreCompare::Target::kValue:
      // The value of an absent key compares as false, whatever the relation (as in etcd).
      return at != keys_.end() && related(compare.relation, stored.value, compare.value);
  }
  return false;
}

Status StoreState::check_ops(const std::vector<StoreOp>& ops) const {
  size_t bytes = 0;
  std::set<std::string_view> put;
  for (const StoreOp& op : ops) {
    if (op.range.begin.empty()) {
      return Status(Code::kInvalidArgument, "etcdserver: key is not provided");
    }
    bytes += op.range.begin.size() + op.value.size();
    if (op.kind != StoreOp::Kind::kPut) continue;
    if (op.lease != 0 && leases_.count(op.lease) == 0) return lease_not_found();
    if (!put.insert(op.range.begin).second) {
      return Status(Code::kInvalidArgument, "etcdserver: duplicate key given in txn request");
    }
  }
  for (const StoreOp& op : ops) {
    if (op.kind != StoreOp::Kind::kDelete) continue;
    if (std::any_of(put.begin(), put.end(), [&](auto key) { return op.range.contains(key); })) {
      return Status(Code::kInvalidArgument, "etcdserver: duplicate key given in txn request");
    }
  }
  if (bytes > limits_.request_bytes) {
    return Status(Code::kInvalidArgument, "etcdserver: request is too large");
  }
  if (!put.empty() && bytes_ + bytes + kItemOverhead * put.size() > limits_.total_bytes) {
    return Status(Code::kNoMemory, "etcdserver: mvcc: database space exceeded");
  }
  return Status();
}

// An upper bound of what the ranges of a transaction answer, before any of it is applied: a range
// sees the keys that are there now and those that the transaction put before it.
Status StoreState::check_reply(const std::vector<StoreOp>& ops) const {
  size_t bytes = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != StoreOp::Kind::kRange) continue;
    for (size_t before = 0; before < i; ++before) {
      const StoreOp& put = ops[before];
      if (put.kind == StoreOp::Kind::kPut && ops[i].range.contains(put.range.begin)) {
        bytes += reply_cost(put.range.begin, put.value);
      }
    }
    WB_RETURN_IF_ERROR(add_reply(ops[i].range, 0, &bytes));
  }
  return bytes > limits_.reply_bytes ? reply_too_large() : Status();
}

Result<StoreTxnResult> StoreState::txn(const std::vector<StoreCompare>& compares,
                                       const std::vector<StoreOp>& success,
                                       const std::vector<StoreOp>& failure) {
  WB_RETURN_IF_ERROR(check_ops(success));
  WB_RETURN_IF_ERROR(check_ops(failure));
  StoreTxnResult result;
  result.succeeded = std::all_of(compares.begin(), compares.end(),
                                 [this](const StoreCompare& compare) { return holds(compare); });
  const std::vector<StoreOp>& chosen = result.succeeded ? success : failure;
  WB_RETURN_IF_ERROR(check_reply(chosen));
  const int64_t next = revision_ + 1;
  bool changed = false;
  for (const StoreOp& op : chosen) {
    StoreOpResult& out = result.results.emplace_back();
    switch (op.kind) {
      case StoreOp::Kind::kPut:
        put(op, next);
        changed = true;
        break;
      case StoreOp::Kind::kDelete:
        out.deleted = remove(op.range, next);
        changed = changed || out.deleted != 0;
        break;
      case StoreOp::Kind::kRange:
        out.items = copy(op.range, 0);
        break;
    }
  }
  // What changed nothing takes no revision.
  if (changed) revision_ = next;
  return result;
}

void StoreState::put(const StoreOp& op, int64_t revision) {
  const auto [at, created] = keys_.try_emplace(op.range.begin);
  StoredValue& stored = at->second;
  if (created) {
    stored.create_revision = revision;
  } else {
    bytes_ -= cost(at->first, stored.value);
    if (stored.lease != 0) leases_.at(stored.lease).keys.erase(at->first);
  }
  stored.value = op.value;
  stored.mod_revision = revision;
  ++stored.version;
  stored.lease = op.lease;
  if (op.lease != 0) leases_.at(op.lease).keys.insert(at->first);
  bytes_ += cost(at->first, stored.value);
  record({false, {at->first, stored}});
}

void StoreState::erase(Keys::iterator at, int64_t revision) {
  StoredValue& stored = at->second;
  bytes_ -= cost(at->first, stored.value);
  if (stored.lease != 0) leases_.at(stored.lease).keys.erase(at->first);
  StoredValue tombstone;
  tombstone.mod_revision = revision;
  record({true, {at->first, tombstone}});
  keys_.erase(at);
}

int64_t StoreState::remove(const StoreRange& range, int64_t revision) {
  const auto [first, last] = bounds(range);
  int64_t count = 0;
  for (auto at = first; at != last; ++count) {
    const auto victim = at++;
    erase(keys_.find(victim->first), revision);
  }
  return count;
}

void StoreState::record(StoreEvent event) {
  history_bytes_ += cost(event);
  history_.push_back(std::move(event));
  while (history_.size() > limits_.history_events || history_bytes_ > limits_.history_bytes) {
    compacted_ = history_.front().item.value.mod_revision + 1;
    history_bytes_ -= cost(history_.front());
    history_.pop_front();
  }
}

Result<StoreState::Lease> StoreState::grant(int64_t id, int64_t ttl, Time now) {
  if (ttl > limits_.max_ttl) {
    return Status(Code::kInvalidArgument, "etcdserver: too large lease TTL");
  }
  if (id < 0) return Status(Code::kInvalidArgument, "etcdserver: a lease id is not negative");
  if (id != 0 && leases_.count(id) != 0) {
    return Status(Code::kFailedPrecondition, "etcdserver: lease already exists");
  }
  if (leases_.size() >= limits_.leases) {
    return Status(Code::kNoMemory, "etcdserver: too many leases");
  }
  while (id == 0 || leases_.count(id) != 0) {
    id = static_cast<int64_t>(random_id().low & static_cast<uint64_t>(INT64_MAX));
  }
  ttl = std::max(ttl, limits_.min_ttl);
  leases_[id] = {ttl, now + std::chrono::seconds(ttl), {}};
  return Lease{id, ttl};
}

std::optional<StoreState::Lease> StoreState::keep_alive(int64_t id, Time now) {
  const auto at = leases_.find(id);
  if (at == leases_.end()) return std::nullopt;
  at->second.deadline = now + std::chrono::seconds(at->second.ttl);
  return Lease{id, at->second.ttl};
}

Status StoreState::revoke(int64_t id) {
  const auto at = leases_.find(id);
  if (at == leases_.end()) return lease_not_found();
  // All keys of a lease go in one revision.
  const std::set<std::string> keys = at->second.keys;
  for (const std::string& key : keys) erase(keys_.find(key), revision_ + 1);
  if (!keys.empty()) ++revision_;
  leases_.erase(at);
  return Status();
}

bool StoreState::expire(Time now) {
  std::vector<int64_t> over;
  for (const auto& [id, lease] : leases_) {
    if (lease.deadline <= now) over.push_back(id);
  }
  const int64_t before = revision_;
  for (const int64_t id : over) (void)revoke(id);  // known to be there
  return revision_ != before;
}

Status StoreState::compact(int64_t revision) {
  if (revision <= compacted_) {
    return Status(Code::kInvalidArgument, "etcdserver: mvcc: required revision has been compacted");
  }
  if (revision > revision_) {
    return Status(Code::kInvalidArgument,
                  "etcdserver: mvcc: required revision is a future revision");
  }
  compacted_ = revision;
  while (!history_.empty() && history_.front().item.value.mod_revision < revision) {
    history_bytes_ -= cost(history_.front());
    history_.pop_front();
  }
  return Status();
}

std::vector<const StoreEvent*> StoreState::events(const StoreRange& range, int64_t* from,
                                                  size_t max_bytes) const {
  std::vector<const StoreEvent*> found;
  size_t bytes = 0;
  auto at = std::lower_bound(history_.begin(), history_.end(), *from,
                             [](const StoreEvent& event, int64_t revision) {
                               return event.item.value.mod_revision < revision;
                             });
  for (; at != history_.end(); ++at) {
    const int64_t revision = at->item.value.mod_revision;
    if (revision > *from && bytes >= max_bytes) {
      *from = revision;
      return found;
    }
    *from = std::max(*from, revision);
    if (!range.contains(at->item.key)) continue;
    bytes += cost(*at);
    found.push_back(&*at);
  }
  *from = std::max(*from, revision_ + 1);
  return found;
}

}  // namespace wb
