// A small job inside one process: a model whose every element says which version, tensor and index
// it is of, trainers and receivers over it, and an embedded store.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fake_domain.h"
#include "layout/tensor_table.h"
#include "layout/worker_layout.h"
#include "session/job.h"
#include "session/publisher.h"
#include "session/receiver.h"
#include "transport/fake/domain.h"
#include "transport/fake/fabric.h"

namespace wb::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline Deadline within(std::chrono::nanoseconds span) {
  return Deadline::after(std::chrono::duration_cast<Deadline::Clock::duration>(span));
}
// Long enough for a loaded machine under a sanitizer: nothing is expected to take it.
inline Deadline soon() { return within(seconds(60)); }

// Tensors of 32-bit words; `rows` scales the size.
TensorTable make_table(int64_t rows);
uint32_t element(uint64_t version, uint32_t tensor, uint64_t index);

// Dimension 0 of every tensor cut into `parts` (uneven), this worker's part.
WorkerLayout cut_rows(const TensorTable& table, int64_t part, int64_t parts);
// Dimension 1 cut; tensors of rank 1 are held whole.
WorkerLayout cut_columns(const TensorTable& table, int64_t part, int64_t parts);
inline WorkerLayout whole(const TensorTable& table) { return cut_rows(table, 0, 1); }

// Stores are word-atomic: readers may be reading.
void fill(const TensorTable& table, const WorkerLayout& layout,
          const std::vector<BoundBuffer>& buffers, uint64_t version);
// Elements that are not of `version`.
uint64_t wrong(const TensorTable& table, const WorkerLayout& layout,
               const std::vector<BoundBuffer>& buffers, uint64_t version);
// Every byte of every buffer, extras and padding too.
void poison(const WorkerLayout& layout, const std::vector<BoundBuffer>& buffers);

struct Trainer {
  WorkerLayout layout;
  std::vector<BoundBuffer> buffers;
  std::unique_ptr<Publisher> publisher;
};
struct Rollout {
  WorkerLayout layout;
  std::vector<BoundBuffer> buffers;
  std::unique_ptr<Receiver> receiver;
};

class World {
 public:
  enum class Wire {
    kFake,   // tests/session/fake_domain.h
    kLocal,  // the local transport
    kVerbs,  // the verbs transport over NICs in memory: each job is a host with two
  };
  explicit World(Wire wire, uint64_t seed = 1, int64_t rows = 8);
  ~World();

  // A job of its own per worker, as in other processes, over one store.
  std::shared_ptr<Job> open_job();
  Result<std::vector<Trainer>> train(std::vector<WorkerLayout> layouts,
                                     PublishMode mode = PublishMode::kInPlace, uint32_t slots = 2);
  Result<Rollout> roll_out(WorkerLayout layout, ReceiverOptions options = {});

  // Writes and publishes `version` on all trainers, in their order.
  void publish(std::vector<Trainer>& trainers, uint64_t version);
  void begin(std::vector<Trainer>& trainers);
  uint64_t wrong(const Rollout& rollout, uint64_t version) const {
    return testing::wrong(table, rollout.layout, rollout.buffers, version);
  }
  std::shared_ptr<Job> store_job() const { return store_job_; }
  // The store dies and comes back at the same address without its records.
  void lose_store();

  const TensorTable table;
  FakeNet net;
  fake::Fabric fabric;         // of kVerbs; hosts in the order of open_job()
  VerbsOptions verbs_options;  // of jobs that are opened from now on

 private:
  void open_store(const std::string& store);
  std::unique_ptr<Domain> open_nics();
  const Wire wire_;
  std::mutex hosts_mutex_;
  size_t hosts_ = 0;
  std::shared_ptr<Job> store_job_;
};

}  // namespace wb::testing
