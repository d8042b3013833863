#include "plan/copies.h"

#include <algorithm>

namespace wb {
namespace {

void append(std::vector<Amount>* list, uint32_t worker, uint64_t bytes) {
  if (bytes == 0) return;
  if (!list->empty() && list->back().worker == worker) {
    list->back().bytes += bytes;
  } else {
    list->push_back({worker, bytes});
  }
}

// Shares of a task, taken from front to back.
class Supply {
 public:
  Supply(const Draft& draft, uint32_t task) : ports_(draft.ports()) {
    if (task != Draft::kNone) shares_ = draft.tasks().shares(task);
  }
  std::vector<Amount> take(uint64_t bytes) {
    std::vector<Amount> taken;
    while (bytes > 0) {
      const PortTasks::Share& share = shares_[next_];
      const uint64_t amount = std::min(bytes, share.bytes - used_);
      taken.push_back({ports_.worker(share.port), amount});
      bytes -= amount;
      used_ += amount;
      if (used_ == share.bytes) {
        ++next_;
        used_ = 0;
      }
    }
    return taken;
  }

 private:
  const Ports& ports_;
  std::span<const PortTasks::Share> shares_;
  size_t next_ = 0;
  uint64_t used_ = 0;
};

class Writer {
 public:
  explicit Writer(const Draft& draft) : draft_(draft), of_receiver_(draft.ports().receivers()) {}

  ClassDivision write(uint32_t c) {
    ClassDivision out;
    const std::span<const Need> needs = draft_.needs().of(c);
    const uint64_t bytes = draft_.needs().classes()[c].bytes;
    const Draft::ClassTasks& tasks = draft_.of(c);
    Supply remote(draft_, tasks.send);
    for (size_t i = 0; i < needs.size(); ++i) {
      Supply local(draft_, tasks.local_send[i]);
      Supply* supply = needs[i].local.empty() ? &remote : &local;
      const std::vector<uint32_t> members(needs[i].members.begin(), needs[i].members.end());
      if (draft_.policy() == Policy::kDirect) {
        for (const uint32_t m : members) {
          out.copies.push_back({supply->take(bytes), {{m, bytes}}, {m}, {}, {}});
        }
      } else if (supply == &local || tasks.forward == Draft::kNone) {
        out.copies.push_back({supply->take(bytes), draft_.first(c, i), members, {}, {}});
      }
    }
    if (tasks.forward != Draft::kNone) {
      out.copies.push_back(fan_out(c));
      out.copies.back().from = remote.take(bytes);
    }
    return out;
  }

 private:
  // All but `from`. Senders of one host are laid next to each other: that is the host's stretch, in
  // which it gets the bytes from the sources.
  Copy fan_out(uint32_t c) {
    Copy copy;
    const std::span<const Need> needs = draft_.needs().of(c);
    const std::span<const PortTasks::Share> senders = draft_.tasks().shares(draft_.of(c).forward);
    for (size_t i = 0; i < needs.size(); ++i) {
      if (!needs[i].local.empty()) continue;
      uint64_t stretch_begin = 0;
      for (const Amount& sender : copy.senders) stretch_begin += sender.bytes;
      std::vector<Amount> own;
      for (const PortTasks::Share& share : senders) {
        const uint32_t receiver = draft_.ports().worker(share.port);
        if (std::ranges::binary_search(needs[i].members, receiver)) {
          own.push_back({receiver, share.bytes});
        }
      }
      copy.entries.push_back(enter(c, i, stretch_begin, own, &copy.first));
      copy.senders.insert(copy.senders.end(), own.begin(), own.end());
      copy.members.insert(copy.members.end(), needs[i].members.begin(), needs[i].members.end());
    }
    std::sort(copy.members.begin(), copy.members.end());
    return copy;
  }

  // Lays the entries of one host so that a sender sends what it got itself as far as it enters by
  // it at all, and one of its host has it in any case.
  Entry enter(uint32_t c, size_t need, uint64_t stretch_begin, const std::vector<Amount>& senders,
              std::vector<Amount>* first) {
    Entry entry;
    const std::span<const uint32_t> members = draft_.needs().of(c)[need].members;
    entry.members.assign(members.begin(), members.end());
    const uint64_t bytes = draft_.needs().classes()[c].bytes;
    std::vector<Amount> rest = draft_.first(c, need);
    for (const Amount& amount : rest) of_receiver_[amount.worker] = amount.bytes;
    std::vector<uint64_t> own;  // of each sender: what enters by itself
    uint64_t stretch = 0;
    for (const Amount& sender : senders) {
      own.push_back(std::min(sender.bytes, of_receiver_[sender.worker]));
      of_receiver_[sender.worker] -= own.back();
      stretch += sender.bytes;
    }
    for (Amount& amount : rest) {
      amount.bytes = of_receiver_[amount.worker];
      of_receiver_[amount.worker] = 0;
    }
    size_t next = 0;
    const auto fill = [&](uint64_t wanted, auto&& to) {
      while (wanted > 0) {
        const uint64_t amount = std::min(wanted, rest[next].bytes);
        to(rest[next].worker, amount);
        wanted -= amount;
        rest[next].bytes -= amount;
        if (rest[next].bytes == 0) ++next;
      }
    };
    const auto at = [&](uint32_t worker, uint64_t amount) { append(&entry.at, worker, amount); };
    const auto both = [&](uint32_t worker, uint64_t amount) {
      at(worker, amount);
      append(first, worker, amount);
    };
    fill(stretch_begin, at);
    for (size_t i = 0; i < senders.size(); ++i) {
      both(senders[i].worker, own[i]);
      fill(senders[i].bytes - own[i], both);
    }
    fill(bytes - stretch_begin - stretch, at);
    return entry;
  }

  const Draft& draft_;
  std::vector<uint64_t> of_receiver_;  // scratch; zero between calls
};

}  // namespace

std::vector<ClassDivision> write_copies(const Draft& draft) {
  std::vector<ClassDivision> out;
  out.reserve(draft.needs().classes().size());
  Writer writer(draft);
  for (uint32_t c = 0; c < draft.needs().classes().size(); ++c) out.push_back(writer.write(c));
  return out;
}

}  // namespace wb
