#include "cli/rank.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/checked.h"
#include "control/peer.h"
#include "layout/rules.h"

namespace wb::cli {
namespace {

constexpr uint64_t kBufferAlignment = 4096;

// Plain anonymous pages, as a trainer that allocates for itself has them.
Result<RankMemory> bind_caller_memory(const WorkerLayout& layout) {
  uint64_t total = 0;
  std::vector<uint64_t> offsets;
  for (const BufferInfo& buffer : layout.buffers) {
    offsets.push_back(total);
    total += round_up(buffer.bytes, kBufferAlignment);
  }
  RankMemory memory;
  if (total == 0) total = kBufferAlignment;
  void* base = ::mmap(nullptr, static_cast<size_t>(total), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (base == MAP_FAILED) {
    return errno_status(errno, "allocating " + std::to_string(total) + " bytes for the weights");
  }
  memory.pages = std::shared_ptr<void>(
      base, [total](void* pages) { ::munmap(pages, static_cast<size_t>(total)); });
  WB_ASSIGN_OR_RETURN(const auto allocation, Allocation::caller(base, total));
  for (const uint64_t offset : offsets) memory.bound.push_back({allocation, offset});
  return memory;
}

}  // namespace

Deadline RankOptions::deadline() const {
  return Deadline::after(std::chrono::duration_cast<Deadline::Clock::duration>(
      std::chrono::duration<double>(timeout)));
}

Result<std::vector<TransportKind>> parse_transport(const std::string& text) {
  if (text == "auto") return std::vector<TransportKind>{};
  if (text == "local") return std::vector<TransportKind>{TransportKind::kLocal};
  if (text == "ucx") return std::vector<TransportKind>{TransportKind::kUcx};
  if (text == "verbs") return std::vector<TransportKind>{TransportKind::kVerbs};
  return Status(Code::kInvalidArgument,
                "--transport is auto, local, ucx or verbs, not \"" + text + "\"");
}

Result<RankMemory> bind_memory(const WorkerLayout& layout, const std::string& kind,
                               bool huge_pages) {
  RankMemory memory;
  if (kind == "caller") {
    WB_ASSIGN_OR_RETURN(memory, bind_caller_memory(layout));
  } else if (kind == "shared" || kind == "host") {
    AllocationOptions options;
    options.huge_pages = huge_pages;
    options.name = "weightbridge-weights";
    WB_ASSIGN_OR_RETURN(
        memory.bound,
        bind_new_memory(layout, kind == "shared" ? MemoryKind::kShared : MemoryKind::kHost,
                        options));
  } else {
    return Status(Code::kInvalidArgument,
                  "--memory is shared, host or caller, not \"" + kind + "\"");
  }
  for (const BoundBuffer& bound : memory.bound) {
    memory.buffers.push_back(bound.memory->data() + bound.offset);
  }
  return memory;
}

Result<Rank> open_rank(const RankOptions& options, LayoutRole role) {
  Rank rank;
  WB_ASSIGN_OR_RETURN(rank.spec, parse_spec(options.spec));
  WB_ASSIGN_OR_RETURN(auto transports, parse_transport(options.transport));
  if (options.rank >= rank.spec.world()) {
    return Status(Code::kInvalidArgument,
                  "--rank " + std::to_string(options.rank) + " is outside the world of " +
                      options.spec + ", which has " + std::to_string(rank.spec.world()) + " ranks");
  }
  if (options.not_dumpable && ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return errno_status(errno, "making the process non-dumpable");
  }
  WB_ASSIGN_OR_RETURN(rank.config, read_model_config(options.model));
  WB_ASSIGN_OR_RETURN(rank.checkpoint, CheckpointMap::open(options.model));
  WB_ASSIGN_OR_RETURN(rank.layout,
                      lay_out(rank.spec, rank.config, rank.checkpoint.table(), options.rank));
  WB_RETURN_IF_ERROR(check_layout(rank.checkpoint.table(), rank.layout, role));

  JobOptions job;
  job.name = options.job;
  job.store = options.store;
  job.host = options.host;
  job.transports = std::move(transports);
  job.verbs = options.verbs;
  job.etcd_user = options.etcd_user;
  job.ca_file = options.ca_file;
  WB_ASSIGN_OR_RETURN(job.token, read_token_file(options.token_file));
  if (!options.etcd_password_file.empty()) {
    WB_ASSIGN_OR_RETURN(job.etcd_password, read_token_file(options.etcd_password_file));
  }
  job.log = Log::to_stderr(options.verbose ? LogLevel::kDebug : LogLevel::kError);
  WB_ASSIGN_OR_RETURN(rank.job, Job::open(std::move(job), options.deadline()));
  WB_ASSIGN_OR_RETURN(rank.memory, bind_memory(rank.layout, options.memory, options.huge_pages));
  return rank;
}

}  // namespace wb::cli
