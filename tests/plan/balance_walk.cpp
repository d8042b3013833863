#include "balance_walk.h"

#include <algorithm>
#include <map>
#include <set>

namespace wb::test {
namespace {

// Who a list has at a position.
class Lane {
 public:
  explicit Lane(const std::vector<Amount>& list) {
    for (const Amount& amount : list) {
      end_ += amount.bytes;
      ends_.push_back({end_, amount.worker});
      sound_ = sound_ && amount.bytes > 0;
    }
  }
  bool sound(uint64_t bytes) const { return sound_ && end_ == bytes; }
  uint32_t at(uint64_t position) const {
    return std::upper_bound(ends_.begin(), ends_.end(), std::pair{position, UINT32_MAX})->second;
  }
  void add_positions(std::set<uint64_t>* positions) const {
    for (const auto& [end, worker] : ends_) positions->insert(end);
  }
  bool only(const std::vector<uint32_t>& allowed) const {
    return std::ranges::all_of(ends_, [&](const auto& range) {
      return std::ranges::binary_search(allowed, range.second);
    });
  }

 private:
  uint64_t end_ = 0;
  bool sound_ = true;
  std::vector<std::pair<uint64_t, uint32_t>> ends_;
};

class Walker {
 public:
  Walker(const BalanceWorld& world, const Balance& balance) : world_(world), balance_(balance) {
    const size_t sources = world.cluster.sources.size();
    const size_t receivers = world.cluster.receivers.size();
    walk_.source_nic.resize(sources);
    walk_.source_inside.resize(sources);
    walk_.receiver_nic_in.resize(receivers);
    walk_.receiver_nic_out.resize(receivers);
    walk_.receiver_inside_in.resize(receivers);
    walk_.receiver_inside_out.resize(receivers);
  }

  Walk run() {
    if (balance_.classes.size() != world_.classes.size()) fail("classes are missing");
    for (size_t c = 0; c < world_.classes.size() && walk_.wrong.empty(); ++c) walk_class(c);
    return walk_;
  }

 private:
  void fail(const std::string& what) {
    if (walk_.wrong.empty()) walk_.wrong = what;
  }
  void must(bool holds, const char* what) {
    if (!holds) fail(what);
  }

  bool together(const Seat& a, const Seat& b) const {
    const uint32_t domain = world_.cluster.hosts[a.host].domain;
    return a.host == b.host || (domain != 0 && domain == world_.cluster.hosts[b.host].domain);
  }
  const Seat& source(uint32_t s) const { return world_.cluster.sources[s]; }
  const Seat& receiver(uint32_t r) const { return world_.cluster.receivers[r]; }

  void walk_class(size_t c) {
    const ByteClass& byte_class = world_.classes[c];
    std::vector<uint32_t> served;
    for (const Copy& copy : balance_.classes[c].copies) {
      served.insert(served.end(), copy.members.begin(), copy.members.end());
      walk_copy(byte_class, copy);
      if (!walk_.wrong.empty()) return;
    }
    std::sort(served.begin(), served.end());
    must(served == byte_class.needers, "members do not partition the needers");
    if (balance_.policy == Policy::kFanout) {
      must(std::ranges::count_if(balance_.classes[c].copies,
                                 [&](const Copy& copy) {
                                   return !together(source(copy.from[0].worker),
                                                    receiver(copy.members[0]));
                                 }) <= 1,
           "fanout: bytes leave the trainers' hosts twice");
    }
  }

  void walk_copy(const ByteClass& byte_class, const Copy& copy) {
    const uint64_t bytes = byte_class.bytes;
    const Lane from(copy.from), first(copy.first), senders(copy.senders);
    must(from.sound(bytes) && from.only(byte_class.holders), "from is wrong");
    must(first.sound(bytes) && first.only(copy.members), "first is wrong");
    must(std::ranges::is_sorted(copy.members), "members are not sorted");
    for (const uint32_t m : copy.members) must_be_local_where_possible(byte_class, copy, m);
    walk_.cuts += copy.from.size() - 1 + copy.first.size() - 1;
    std::set<uint64_t> positions = {0};
    from.add_positions(&positions);
    first.add_positions(&positions);
    std::map<uint32_t, const Entry*> entry_of;
    std::map<const Entry*, Lane> entries;
    if (!copy.entries.empty()) {
      must(balance_.policy == Policy::kFanout, "entries without fanout");
      must(senders.sound(bytes) && senders.only(copy.members), "senders are wrong");
      senders.add_positions(&positions);
      for (const Entry& entry : copy.entries) {
        const Lane lane(entry.at);
        must(lane.sound(bytes) && lane.only(entry.members), "an entry is wrong");
        lane.add_positions(&positions);
        entries.emplace(&entry, lane);
        for (const uint32_t m : entry.members) {
          must(entry_of.emplace(m, &entry).second, "a member is in two entries");
          must(together(receiver(m), receiver(entry.members[0])), "an entry spans hosts");
        }
      }
      must(entry_of.size() == copy.members.size(), "entries do not cover the members");
    } else {
      must(copy.senders.empty(), "senders without entries");
    }
    if (!walk_.wrong.empty()) return;
    for (auto at = positions.begin(); std::next(at) != positions.end(); ++at) {
      const uint64_t x = *at, length = *std::next(at) - x;
      // By member: the receiver it reads from, or itself where it reads from the source.
      std::map<uint32_t, uint32_t> reads;
      for (const uint32_t m : copy.members) {
        if (copy.entries.empty()) {
          reads[m] = first.at(x);
          continue;
        }
        const uint32_t entry = entries.at(entry_of.at(m)).at(x);
        const uint32_t sender = senders.at(x);
        if (m != entry) {
          reads[m] = entry;
        } else if (entry_of.at(sender) == entry_of.at(m)) {
          must(first.at(x) == m, "first is not where the sender's host is entered");
          reads[m] = m;
        } else {
          reads[m] = sender;
        }
      }
      move(reads, from.at(x), length);
      if (!walk_.wrong.empty()) return;
    }
  }

  void must_be_local_where_possible(const ByteClass& byte_class, const Copy& copy, uint32_t m) {
    const bool possible = std::ranges::any_of(
        byte_class.holders, [&](uint32_t s) { return together(source(s), receiver(m)); });
    if (!possible) return;
    must(std::ranges::all_of(
             copy.from, [&](const Amount& a) { return together(source(a.worker), receiver(m)); }),
         "a member reads over a NIC what its host holds");
  }

  void move(const std::map<uint32_t, uint32_t>& reads, uint32_t from, uint64_t length) {
    std::map<uint32_t, uint32_t> entries;  // by member that a byte enters by: once per host
    for (const auto& [reader, served_by] : reads) {
      uint32_t origin = reader;
      size_t hops = 0;
      for (; reads.at(origin) != origin && hops <= reads.size(); ++hops) origin = reads.at(origin);
      must(hops <= 3, "a cycle, or a long way");
      const bool from_source = reader == served_by;
      const Seat& to = receiver(reader);
      const Seat& by = from_source ? source(from) : receiver(served_by);
      if (together(by, to)) {
        walk_.receiver_inside_in[reader] += length;
        (from_source ? walk_.source_inside[from] : walk_.receiver_inside_out[served_by]) += length;
      } else {
        walk_.receiver_nic_in[reader] += length;
        (from_source ? walk_.source_nic[from] : walk_.receiver_nic_out[served_by]) += length;
        for (const auto& [other, unused] : entries) {
          must(!together(receiver(other), to), "a byte enters a host twice");
        }
        entries[reader] = 0;
      }
    }
  }

  const BalanceWorld& world_;
  const Balance& balance_;
  Walk walk_;
};

}  // namespace

Walk walk(const BalanceWorld& world, const Balance& balance) {
  return Walker(world, balance).run();
}

}  // namespace wb::test
