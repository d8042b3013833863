// What the commands `publish` and `pull` have in common: one rank of one side of a job.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "cli/checkpoint_map.h"
#include "cli/expect.h"
#include "layout/model_config.h"
#include "layout/spec.h"
#include "layout/worker_layout.h"
#include "session/job.h"

namespace wb::cli {

struct RankOptions {
  std::string model;
  std::string spec;  // --trainer or --rollout
  uint32_t rank = 0;
  std::string store;
  std::string token_file;
  std::string job = "default";
  std::string host = "127.0.0.1";
  std::string transport = "auto";
  std::string verbs;  // KEY=VALUE,...
  std::string memory = "shared";
  double timeout = 120;  // seconds, of each single wait
  bool huge_pages = false;
  bool json = false;  // one JSON object a line instead of text
  bool verbose = false;
  bool not_dumpable = false;
  std::string etcd_user, etcd_password_file, ca_file;

  Deadline deadline() const;
};

// Memory for the buffers of a layout.
struct RankMemory {
  std::vector<BoundBuffer> bound;
  std::vector<std::byte*> buffers;  // parallel
  // Keeps the pages that kCaller allocations only refer to.
  std::shared_ptr<void> pages;
};

struct Rank {
  Spec spec;
  ModelConfig config;
  CheckpointMap checkpoint;
  WorkerLayout layout;
  std::shared_ptr<Job> job;
  RankMemory memory;
};

Result<std::vector<TransportKind>> parse_transport(const std::string& text);
// kInvalidArgument for a word that is not shared, host or caller.
Result<RankMemory> bind_memory(const WorkerLayout& layout, const std::string& kind,
                               bool huge_pages);

// "changing" or "checkpoint".
Values values_of(const std::string& word);

// Lays the rank out and binds its memory, then opens the job. Nothing is contacted before the words
// of the options are known to be right.
Result<Rank> open_rank(const RankOptions& options, LayoutRole role);

// The expectation of a rank, and the checkpoint that it points into.
class RankCheck {
 public:
  static Result<RankCheck> make(const RankOptions& options, const Spec& spec);
  // What the rank's memory holds now, against `version`.
  Verification verify(const Rank& rank, uint64_t version, Values values) const;

 private:
  std::unique_ptr<SourceModel> model_;
  Expectation expectation_;
};

}  // namespace wb::cli
