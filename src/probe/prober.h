// Learns a worker's layout from its own loader.
//
// The loader runs a few times, each time over other probe tensors; after each run the buffers are
// read and forgotten again:
//
//   index planes     each carries one digit of (tensor, coordinates); after the last one every
//                    element of every buffer claims to be a copy of some checkpoint element, or not
//   values A         random values: claims that do not hold are dropped, what is left over is
//                    watched (see leftovers.h)
//   values B, C, C   other random values, of another sign and size (see alphabet.h): what holds
//                    here too is a piece
//
// This class owns no thread and knows no framework. One thread at a time, except view().
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "probe/backup.h"
#include "probe/homes.h"
#include "probe/leftovers.h"
#include "probe/runs.h"
#include "probe/schema.h"
#include "probe/views.h"

namespace wb::probe {

enum class Restore : uint8_t {
  kBackup,  // buffers are copied aside first and put back last
  kReload,  // the caller loads the real weights last; what the loader does not write is put back
};

struct Options {
  Restore restore = Restore::kBackup;
  unsigned threads = 1;       // that read the buffers
  std::string backup_folder;  // empty: in memory
  uint64_t max_bytes = 0;     // for what is read back; 0: a tenth of the buffers and 64 MiB
  uint64_t seed = 0;
  // Asked before that many bytes of memory are taken for a backup. May be empty.
  std::function<Status(uint64_t)> reserve;
};

enum class PassKind : uint8_t { kLoad, kReload, kDone };

struct Pass {
  PassKind kind = PassKind::kDone;
  uint32_t index = 0;
  uint32_t count = 0;
  const char* what = "";  // lives as long as the prober
};

struct TensorView {
  const TensorInfo* info = nullptr;
  const ProbedTensor* probed = nullptr;  // rank and shape
  const int64_t* stride = nullptr;       // bytes; these live as long as the prober
  const std::byte* data = nullptr;
};

struct Place {
  std::string_view name;
  const void* data = nullptr;
  uint64_t bytes = 0;
};

struct Alias {
  std::string name;
  std::string owner;
  uint64_t offset = 0;  // bytes, in the owner
};

struct Probed {
  WorkerLayout layout;
  std::vector<std::byte*> data;   // of the layout's buffers
  std::vector<KindRange> ranges;  // of what is not copied, in order
  std::vector<Homes> homes;       // parallel to the table
  std::vector<Alias> aliases;
  std::array<uint64_t, 6> kind_bytes{};  // by ByteKind
  Digest digest;
  std::string digest_text;  // hexadecimal
  uint32_t passes = 0;
  uint64_t backup_bytes = 0;
  uint64_t peak_bytes = 0;
  std::chrono::nanoseconds load{};
  std::chrono::nanoseconds read{};
  std::chrono::nanoseconds solve{};
};

class Prober {
 public:
  Prober(TensorTable table, Options options);
  ~Prober();

  // `data` stays where it is until the prober ends. Gives the number of the call.
  Result<uint32_t> add_buffer(BufferInfo info, std::byte* data);
  Result<Pass> begin_pass();
  Result<TensorView> view(size_t tensor) const;
  // `listed`: `places` are the live tensors now; else nothing is compared.
  Status end_pass(std::span<const Place> places, bool listed);
  // Whether the caller must load the real weights.
  bool abort();

  const TensorTable& table() const { return table_; }
  // Null before kDone.
  const Probed* result() const { return done_ ? &result_ : nullptr; }

 private:
  enum class Phase : uint8_t { kFresh, kReady, kInPass, kReloading, kFinished, kFailed };
  enum class Round : uint8_t { kIndex, kA, kB, kC, kCAgain };
  struct Target;  // a buffer of the layout
  struct Given;   // a buffer as it was added
  struct Claim;   // a piece that is not proved yet

  using Clock = std::chrono::steady_clock;

  Status prepare();
  Status find_aliases();
  Status make_backup();
  Round round() const;
  Status make_views();
  Status check_places(std::span<const Place> places);
  Status read();
  Status read_plane();
  Status solve();
  Status solve_target(Target* target);
  Status read_values();
  Status check_claims(size_t target, Round round);
  Status watch(Target* target, Round round);
  bool claim_holds(const Target& target, const Claim& claim, const ValueViews& values) const;
  // The parts of a false claim that hold.
  void salvage(const Target& target, const Claim& claim, std::vector<Claim>* kept) const;
  Status save_leftovers();
  void watch_leftovers();
  Status finish();
  void finish_ranges();
  void finish_homes();
  void add_extras(uint32_t buffer, std::span<const KindRange> ranges);
  void put_back();
  void note_memory(uint64_t extra);
  Status fail(Status status);

  const TensorTable table_;
  Options options_;
  Phase phase_ = Phase::kFresh;
  bool done_ = false;
  bool modified_ = false;  // the loader may have written to the buffers
  bool aborted_needs_reload_ = false;

  std::vector<Given> given_;
  std::unordered_map<std::string, size_t> by_name_;
  std::vector<Target> targets_;
  uint64_t total_bytes_ = 0;
  uint64_t max_bytes_ = 0;

  Schema schema_;
  uint32_t pass_ = 0;
  uint32_t pass_count_ = 0;
  std::vector<std::string> names_;                 // of passes
  std::vector<std::unique_ptr<PassViews>> views_;  // of all passes so far
  ValueViews* values_ = nullptr;                   // the present pass's, if it carries values
  ValueViews* values_before_ = nullptr;            // those of the pass before
  std::vector<std::vector<int64_t>> strides_;      // of all passes so far
  std::vector<size_t> first_stride_;               // per tensor, in each of strides_
  uint64_t view_bytes_ = 0;

  std::unique_ptr<BlockStore> blocks_;
  Backup backup_;
  Probed result_;
  Clock::time_point began_;
};

}  // namespace wb::probe
