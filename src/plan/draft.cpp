#include "plan/draft.h"

#include <algorithm>

namespace wb {
namespace {

template <typename Port>
std::vector<uint32_t> ports_of(std::span<const uint32_t> workers, Port port) {
  std::vector<uint32_t> ports;
  for (const uint32_t worker : workers) ports.push_back(port(worker));
  return ports;
}

}  // namespace

Draft::Draft(Policy policy, const Needs& needs, const Ports& ports)
    : policy_(policy),
      needs_(needs),
      ports_(ports),
      tasks_(ports),
      classes_(needs.classes().size()) {
  for (const uint32_t c : needs.order()) add_class(c);
  tasks_.solve();
}

std::vector<Amount> Draft::first(uint32_t c, size_t need) const {
  const uint32_t task = classes_[c].enter[need];
  if (task == kNone) return {{needs_.of(c)[need].members[0], needs_.classes()[c].bytes}};
  std::vector<Amount> first;
  for (const PortTasks::Share& share : tasks_.shares(task)) {
    first.push_back({ports_.worker(share.port), share.bytes});
  }
  return first;
}

void Draft::add_class(uint32_t c) {
  if (policy_ == Policy::kDirect) {
    add_direct(c);
  } else {
    add_shared(c);
  }
}

// Every receiver gets every byte from a source: on its own host if one has it.
void Draft::add_direct(uint32_t c) {
  const ByteClass& byte_class = needs_.classes()[c];
  uint64_t remote = 0;
  for (const Need& need : needs_.of(c)) {
    uint32_t local_send = kNone;
    if (need.local.empty()) {
      remote += need.members.size();
      for (const uint32_t m : need.members) {
        tasks_.add_fixed(ports_.receiver_in(m), byte_class.bytes);
      }
    } else {
      local_send =
          tasks_.add(byte_class.bytes * need.members.size(), 1,
                     ports_of(need.local, [&](uint32_t s) { return ports_.source_inside(s); }));
    }
    classes_[c].local_send.push_back(local_send);
  }
  if (remote > 0) {
    classes_[c].send =
        tasks_.add(byte_class.bytes * remote, 1,
                   ports_of(byte_class.holders, [&](uint32_t s) { return ports_.source_out(s); }));
  }
}

// Every byte enters a host once, or not at all where a source on it has the byte, and is passed on
// inside. With fanout, one host gets it from the sources and sends it to the others.
void Draft::add_shared(uint32_t c) {
  const ByteClass& byte_class = needs_.classes()[c];
  ClassTasks& of_class = classes_[c];
  uint64_t remote = 0;
  std::vector<uint32_t> remote_members;
  for (const Need& need : needs_.of(c)) {
    const uint64_t others = need.members.size() - 1;
    if (need.local.empty()) {
      ++remote;
      remote_members.insert(remote_members.end(), need.members.begin(), need.members.end());
      of_class.local_send.push_back(kNone);
      of_class.enter.push_back(
          tasks_.add(byte_class.bytes, 1,
                     ports_of(need.members, [&](uint32_t m) { return ports_.receiver_in(m); })));
    } else {
      of_class.local_send.push_back(
          tasks_.add(byte_class.bytes, 1,
                     ports_of(need.local, [&](uint32_t s) { return ports_.source_inside(s); })));
      of_class.enter.push_back(others == 0 ? kNone
                                           : tasks_.add(byte_class.bytes, others,
                                                        ports_of(need.members, [&](uint32_t m) {
                                                          return ports_.receiver_inside(m);
                                                        })));
    }
  }
  if (remote == 0) return;
  const bool fanout = policy_ == Policy::kFanout;
  of_class.send =
      tasks_.add(fanout ? byte_class.bytes : byte_class.bytes * remote, 1,
                 ports_of(byte_class.holders, [&](uint32_t s) { return ports_.source_out(s); }));
  if (fanout && remote > 1) {
    std::sort(remote_members.begin(), remote_members.end());
    of_class.forward =
        tasks_.add(byte_class.bytes, remote - 1,
                   ports_of(remote_members, [&](uint32_t m) { return ports_.receiver_out(m); }));
  }
}

}  // namespace wb
