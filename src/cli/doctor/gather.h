// Collects the facts. Each part is thin: it asks and writes down, and judges nothing.
#pragma once

#include <string>

#include "cli/doctor/facts.h"

namespace wb::verbs {
class Verbs;
}

namespace wb::cli::doctor {

MachineFacts gather();

// What files tell. `root` is put in front of /sys, /proc and /dev: a test's own tree.
RdmaFacts gather_rdma_files(const std::string& root);
std::optional<int> gather_ptrace_scope(const std::string& root);
bool gather_peermem(const std::string& root);
void gather_kernel(const std::string& release, MachineFacts* facts);

// What libraries and system calls tell.
void gather_verbs(const std::string& library, RdmaFacts* rdma);
void add_device_caps(const verbs::Verbs& verbs, RdmaFacts* rdma);
LimitFacts gather_limits();
MemoryFacts gather_memory();
LocalFacts gather_local();
UcxFacts gather_ucx();
CudaFacts gather_cuda();

}  // namespace wb::cli::doctor
