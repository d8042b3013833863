// Which kernel, namespaces and process this is, and whether another process is still that one.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "transport/local/unique_fd.h"
#include "transport/local/wire.h"

namespace wb::local {

// Everything but the incarnation and the stamp table.
Result<ProcessAddress> this_process();

// Start time of a process in clock ticks since boot; kNotFound when there is no such process.
Result<uint64_t> start_ticks_of(uint32_t pid);

// A pidfd of exactly that process: kPeerLost when its id is free or belongs to another by now.
Result<UniqueFd> open_process(const ProcessAddress& address);

// kPeerLost once the process has ended.
Status still_running(const UniqueFd& pidfd, uint32_t pid);

// kernel.yama.ptrace_scope; 0 where the kernel has no Yama.
uint8_t yama_scope();

// Why the kernel refused (EPERM) process_vm_readv of `pid`: one sentence that says what to do.
// `source` is what the source told about itself.
std::string why_forbidden(uint32_t pid, const PtraceGrant& source);

}  // namespace wb::local
