// What the facts mean: pure functions, one per part of the machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/facts.h"

namespace wb::cli::doctor {

enum class Verdict : uint8_t {
  kOk,
  kNote,     // works, but slower or with less than the machine could do; or nothing to use
  kProblem,  // something that is there, or that was asked for, cannot work
};
std::string_view verdict_name(Verdict verdict);

struct Finding {
  std::string subject;  // "rdma mlx5_0", "port mlx5_0:1", "limits"
  Verdict verdict = Verdict::kOk;
  std::string text;  // what is so
  std::string cure;  // one sentence; never empty for a problem
};
using Findings = std::vector<Finding>;

// What the caller cannot do without (--need): its absence is a problem instead of a note.
struct Needs {
  bool local = false;
  bool ucx = false;
  bool verbs = false;
  bool gpu = false;
};

Findings check_rdma(const MachineFacts& facts, const Needs& needs);
Findings check_pci(const MachineFacts& facts);
// Which RDMA devices are nearest to each GPU and each NUMA node.
Findings check_near(const MachineFacts& facts);
Findings check_limits(const MachineFacts& facts);
Findings check_memory(const MachineFacts& facts);
Findings check_local(const MachineFacts& facts, const Needs& needs);
Findings check_ucx(const MachineFacts& facts, const Needs& needs);
Findings check_gpu(const MachineFacts& facts, const Needs& needs);

// All of them, in this order.
Findings check_all(const MachineFacts& facts, const Needs& needs);

Verdict worst(const Findings& findings);

// True when a port of an RDMA device could carry READs now.
bool usable_rdma(const MachineFacts& facts);

}  // namespace wb::cli::doctor
