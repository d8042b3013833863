// What a policy asks of the ports, solved; enough to tell how long it takes and to write the
// copies.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/balance.h"
#include "plan/needs.h"
#include "plan/ports.h"

namespace wb {

class Draft {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Tasks of one class, by number.
  struct ClassTasks {
    uint32_t send = kNone;             // sources, over NICs: all that they send
    uint32_t forward = kNone;          // receivers that send to the other hosts
    std::vector<uint32_t> local_send;  // by need: holders on the host, inside it
    std::vector<uint32_t> enter;       // by need: members that read it first; none: its only member
  };

  Draft(Policy policy, const Needs& needs, const Ports& ports);

  Policy policy() const { return policy_; }
  const Needs& needs() const { return needs_; }
  const Ports& ports() const { return ports_; }
  const PortTasks& tasks() const { return tasks_; }
  const ClassTasks& of(uint32_t byte_class) const { return classes_[byte_class]; }

  // Members of a need that get bytes of it first, in order. Not with kDirect.
  std::vector<Amount> first(uint32_t byte_class, size_t need) const;

 private:
  void add_class(uint32_t byte_class);
  void add_direct(uint32_t byte_class);
  void add_shared(uint32_t byte_class);

  Policy policy_;
  const Needs& needs_;
  const Ports& ports_;
  PortTasks tasks_;
  std::vector<ClassTasks> classes_;
};

}  // namespace wb
